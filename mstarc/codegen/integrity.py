"""Compare a plan's files with the digests that its `plan.json` lists."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath

from mstarc.codegen.write import PLAN_FILE
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span

_MAKE_AGAIN = "compile the spec again to make the plan whole"


def check_files(folder: str, files: Mapping[str, bytes], sink: DiagnosticSink) -> None:
    """Report what is edited, missing or left over in a plan.

    `files` is all that the folder named `folder` holds, by path inside it.
    """
    digests = _digests(files.get(PLAN_FILE))
    if digests is None:
        lacks = "there is no" if PLAN_FILE not in files else "no files are listed in"
        found = _finding("MS0008", folder, f"`{folder}` is not a plan")
        sink.report(found.note(f"{lacks} `{PLAN_FILE}`"))
        return
    for name in sorted(digests.keys() | files.keys() - {PLAN_FILE}):
        path = f"{folder}/{name}"
        if name not in digests:
            found = _finding("MS0802", path, f"`{path}` is no file of the plan")
            sink.report(found.note(f"`{PLAN_FILE}` does not list it").help("remove it"))
        elif name not in files:
            found = _finding("MS0803", path, f"`{path}` is missing")
            sink.report(found.help(_MAKE_AGAIN))
        elif hashlib.sha256(files[name]).hexdigest() != digests[name]:
            found = _finding("MS0801", path, f"`{path}` was changed after it was written")
            note = f"its digest is not the one that `{PLAN_FILE}` lists"
            sink.report(found.note(note).help(_MAKE_AGAIN))


def is_part_of_plan(path: PurePosixPath) -> bool:
    """Whether a file inside a plan's folder counts: Python's own caches do not."""
    return "__pycache__" not in path.parts


def _digests(plan: bytes | None) -> dict[str, str] | None:
    if plan is None:
        return None
    try:
        files = json.loads(plan)["files"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        return None
    return files


def _finding(code: str, path: str, message: str) -> Diagnostic:
    return Diagnostic(
        code=code, message=message, primary=Label(span=Span(path=path, start=0, end=0))
    )

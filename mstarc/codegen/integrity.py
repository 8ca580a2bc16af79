"""Compare a plan's files with the digests that its `plan.json` lists.

`plan.json` ends with a digest of its own content, so that nothing in a plan can be edited unseen.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from mstarc.codegen.write import PLAN_FILE
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.plan.abi import PLAN_ABI
from mstarc.source import Span

_MAKE_AGAIN = "compile the spec again to make the plan whole"


def check_files(folder: str, files: Mapping[str, bytes], sink: DiagnosticSink) -> None:
    """Report what is edited, missing or left over in a plan.

    `files` is all that the folder named `folder` holds, by path inside it.
    """
    document = _document(files.get(PLAN_FILE))
    if document is None:
        lacks = "there is no" if PLAN_FILE not in files else "no files are listed in"
        found = _finding("MS0008", folder, f"`{folder}` is not a plan")
        sink.report(found.note(f"{lacks} `{PLAN_FILE}`"))
        return
    digests: dict[str, str] = document["files"]
    if document.get("abi") != PLAN_ABI:
        # What its digests are of is another version's to say.
        message = f"`{folder}` is a plan of ABI {document.get('abi')}, and this is ABI {PLAN_ABI}"
        sink.report(_finding("MS0804", folder, message).help(_MAKE_AGAIN))
        return
    if document.pop("digest", None) != document_digest(document):
        path = f"{folder}/{PLAN_FILE}"
        found = _finding("MS0801", path, f"`{path}` was changed after it was written")
        sink.report(found.note("its own digest is another").help(_MAKE_AGAIN))
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


def document_digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of what `plan.json` says but for its `digest`, however it is laid out."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _document(plan: bytes | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    try:
        document = json.loads(plan)
        files = document["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        return None
    return document if isinstance(document, dict) else None


def _finding(code: str, path: str, message: str) -> Diagnostic:
    return Diagnostic(
        code=code, message=message, primary=Label(span=Span(path=path, start=0, end=0))
    )

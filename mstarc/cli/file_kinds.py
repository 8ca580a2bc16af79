"""What a file is that is no spec, as far as its name and its first lines tell.

Read as a spec, such a file gives findings about its first marks, which say nothing of what is
wrong: another file was given.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from mstarc.cli.find_spec import YAML
from mstarc.cli.inputs import read_source, shown_path
from mstarc.deployment.keys import FileKind, kind_of_file
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import SourceFile, Span

_SPEC = re.compile(r"(?:\s|#[^\n]*\n)*mstar\b")
_PROGRAM = re.compile(r"(?:\s|#[^\n]*\n)*program\s+\w+\s*\n")
_OTHER_YAML: Mapping[FileKind, tuple[str, str]] = {
    "deployment": (
        "a deployment file",
        "`mstarc lint {0}` checks it, and `mstarc compile {0} -o PLAN` compiles it",
    ),
    "sizes": (
        "a file of sizes",
        "`mstarc compile SPEC --sizes {0} -o PLAN` compiles a spec with it, and "
        "`mstarc lint SPEC {0}` checks it",
    ),
    "requests": (
        "kinds of requests",
        "`mstarc place SPEC --requests {0}` and `mstarc simulate` read it",
    ),
    "profile": ("a profile", "`mstarc compile SPEC --profile {0} -o PLAN` reads it"),
    "device kinds": (
        "device kinds",
        "`mstarc compile SPEC --devices {0} -o PLAN` reads it, and "
        "`mstarc explain --devices {0}` shows it",
    ),
}
_PYTHON = re.compile(r"^(?:import|from|def|class|@)\s*\w", re.MULTILINE)


def read_spec(path: Path, sink: DiagnosticSink) -> SourceFile | None:
    """The spec at `path`; none and a finding where it can't be read or is none (MS0011)."""
    if path.is_dir():
        _report(path, *_folder(path), sink)
        return None
    source = read_source(path, sink)
    if source is None:
        return None
    known = _kind_of(path, source.text)
    if known is None:
        return source
    _report(path, *known, sink)
    return None


def is_other_yaml(
    path: Path, text: str, wanted: FileKind, sink: DiagnosticSink, *, said: str | None = None
) -> bool:
    """Whether a YAML file is of another kind than is wanted, which is reported (MS0011)."""
    kind = kind_of_file(text)
    if kind is None or kind == wanted:
        return False
    what, remedy = _OTHER_YAML[kind]
    _report(path, what, remedy.format(shown_path(path)), sink, wanted=said or wanted)
    return True


def _folder(path: Path) -> tuple[str, str]:
    name = shown_path(path)
    if (path / "plan.json").is_file():
        return (
            "a plan's folder",
            f"`mstarc run {name}` runs it, and `mstarc check {name}` checks it",
        )
    inside = sorted(file for file in path.glob("*.mstar"))
    if inside:
        return "a folder with specs", f"name one of them, such as `{shown_path(inside[0])}`"
    return "a folder", "name a file that ends with `.mstar`"


def _kind_of(path: Path, text: str) -> tuple[str, str] | None:
    """What a text is besides a spec, and what to do; none for what may be one."""
    name = shown_path(path)
    if "\0" in text[:4096]:
        return "a binary file", "a spec is a text that begins with `mstar 1`"
    if path.suffix == ".mstar" or _SPEC.match(text):
        return None
    if path.suffix in YAML:
        kind = kind_of_file(text)
        if kind is not None and kind != "deployment":
            what, remedy = _OTHER_YAML[kind]
            return what, remedy.format(name)
        return (
            "a YAML file",
            f"`mstarc lint {name}` checks a deployment file, `mstarc compile {name}` compiles it",
        )
    if _is_json(path, text):
        if path.name == "plan.json":
            folder = shown_path(path.parent)
            return "a plan's list of files", f"name the folder: `mstarc check {folder}`"
        return "JSON", "requests are given to `mstarc run PLAN --request FILE`"
    if path.suffix == ".mir" or _PROGRAM.match(text):
        return "a plan's program", f"`mstarc place {name}` places it; its spec is another file"
    if path.suffix == ".py" or _PYTHON.search(text):
        return "Python", 'a spec names Python by `impl "module:Class"`, and holds none'
    return None


def _is_json(path: Path, text: str) -> bool:
    if path.suffix == ".json":
        return True
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _report(
    path: Path, kind: str, remedy: str, sink: DiagnosticSink, *, wanted: str = "spec"
) -> None:
    name = shown_path(path)
    sink.report(
        Diagnostic(
            code="MS0011",
            message=f"`{name}` is no {wanted}",
            primary=Label(span=Span(path=name, start=0, end=0), text=f"it looks like {kind}"),
            notes=(f"it looks like {kind}",),
            helps=(remedy,),
        )
    )

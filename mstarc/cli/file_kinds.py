"""What a file is that is no spec, as far as its name and its first lines tell.

Read as a spec, such a file gives findings about its first marks, which say nothing of what is
wrong: another file was given.
"""

import json
import re
from pathlib import Path

from mstarc.cli.find_spec import YAML
from mstarc.cli.inputs import read_source, shown_path
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import SourceFile, Span

_SPEC = re.compile(r"(?:\s|#[^\n]*\n)*mstar\b")
_PROGRAM = re.compile(r"(?:\s|#[^\n]*\n)*program\s+\w+\s*\n")
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


def _report(path: Path, kind: str, remedy: str, sink: DiagnosticSink) -> None:
    name = shown_path(path)
    sink.report(
        Diagnostic(
            code="MS0011",
            message=f"`{name}` is no spec",
            primary=Label(span=Span(path=name, start=0, end=0), text=f"it looks like {kind}"),
            notes=(f"it looks like {kind}",),
            helps=(remedy,),
        )
    )

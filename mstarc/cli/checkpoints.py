"""Read the headers of a local checkpoint: never its tensors."""

import struct
from pathlib import Path

from mstarc.cli.inputs import shown_path
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.options import CheckpointFolder
from mstarc.source import Span

# A header of more is no header: the format allows as much.
_MOST_BYTES = 100 * 10**6


def read_checkpoint(text: str, sink: DiagnosticSink) -> CheckpointFolder | None:
    """The checkpoint that `[NODE=]FOLDER` names; none after a report (MS0010)."""
    node, equals, name = text.partition("=")
    # A path may have a `=` in it, a node's name has no `/`.
    folder = Path(name if equals and "/" not in node else text)
    node = node if equals and "/" not in node else ""
    shown = shown_path(folder)
    if not folder.is_dir():
        _report(shown, "it is not a folder" if folder.exists() else "no such folder", sink)
        return None
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        _report(shown, "it holds no `.safetensors` file", sink)
        return None
    headers = [(shown_path(path), _header(path)) for path in files]
    broken = [path for path, header in headers if header is None]
    for path in broken:
        _report(path, "its header is not that of a safetensors file", sink)
    if broken:
        return None
    return CheckpointFolder(
        node=node,
        path=shown,
        headers=tuple((path, header) for path, header in headers if header is not None),
        config=_text(folder / "config.json"),
    )


def _header(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MOST_BYTES:
                return None
            content = file.read(length)
            return content.decode() if len(content) == length else None
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _report(path: str, why: str, sink: DiagnosticSink) -> None:
    # The label is for formats of one line: no text is there to draw it under.
    place = Label(span=Span(path=path, start=0, end=0), text=why)
    found = Diagnostic(
        code="MS0010",
        message=f"`{path}` is no checkpoint",
        primary=place,
        notes=(why,),
        helps=("give the folder that holds the `.safetensors` files of the weights",),
    )
    sink.report(found)

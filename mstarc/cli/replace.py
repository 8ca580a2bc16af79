"""Put a text in the place of a file at once."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from mstarc.cli.inputs import shown_path
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span


def replace_file(path: Path, text: str, sink: DiagnosticSink) -> None:
    """Make `path` hold `text`, so that no reader sees half of it, or report MS0004."""
    try:
        _replace(path.resolve(), text)  # a link stays a link
    except OSError as error:
        name = shown_path(path)
        sink.report(not_written(name, f"`{name}` could not be written", error))


def create_file(path: Path, text: str, sink: DiagnosticSink) -> None:
    """As `replace_file`, where nothing stands yet; what does is left alone (MS0004)."""
    if os.path.lexists(path):
        name = shown_path(path)
        error = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        sink.report(not_written(name, f"`{name}` could not be written", error))
        return
    replace_file(path, text, sink)


def not_written(name: str, message: str, error: OSError, *notes: str) -> Diagnostic:
    """MS0004 with the system's reason."""
    reason = (error.strerror or type(error).__name__).lower()
    return Diagnostic(
        code="MS0004",
        message=message,
        # The label is for formats of one line: no text is there to draw it under.
        primary=Label(span=Span(path=name, start=0, end=0), text=reason),
        notes=(reason, *notes),
    )


def _replace(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="")  # a device or a pipe, or IsADirectory
        return
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with staged.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        if path.exists():
            os.chmod(staged, path.stat().st_mode)
        os.replace(staged, path)
    except BaseException:
        with suppress(OSError):
            staged.unlink()
        raise

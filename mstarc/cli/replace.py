"""Put a text in the place of a file at once."""

import os
import tempfile
from pathlib import Path

from mstarc.cli.inputs import shown_path
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span


def replace_file(path: Path, text: str, sink: DiagnosticSink) -> None:
    """Put `text` in the place of a file, so that no reader sees half of it, or report MS0004."""
    path = path.resolve()  # a link stays a link
    staged = None
    try:
        descriptor, staged = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(staged, path.stat().st_mode)
        os.replace(staged, path)
    except OSError as error:
        if staged is not None:
            Path(staged).unlink(missing_ok=True)
        name = shown_path(path)
        found = Diagnostic(
            code="MS0004",
            message=f"`{name}` could not be written",
            primary=Label(span=Span(path=name, start=0, end=0)),
            notes=((error.strerror or type(error).__name__).lower(),),
        )
        sink.report(found)

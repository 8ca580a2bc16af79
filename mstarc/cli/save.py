"""Write a plan, and say why when that cannot be done."""

from collections.abc import Mapping
from pathlib import Path

from mstarc.cli.inputs import shown_path
from mstarc.codegen.write import is_replaceable, write_plan
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span


def save_plan(files: Mapping[str, str], folder: Path, sink: DiagnosticSink) -> None:
    """Make `folder` hold exactly `files`, or report why not (MS0004, MS0005)."""
    name = shown_path(folder)
    place = Label(span=Span(path=name, start=0, end=0))
    try:
        if not is_replaceable(folder):
            sink.report(
                Diagnostic(
                    code="MS0005",
                    message=f"`{name}` exists and is not a plan",
                    primary=place,
                    notes=("writing a plan replaces the whole folder",),
                    helps=("give another folder with `-o`, or remove this one yourself",),
                )
            )
            return
        write_plan(files, folder)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        where = f": {error.filename}" if error.filename else ""
        sink.report(
            Diagnostic(
                code="MS0004",
                message=f"the plan could not be written to `{name}`",
                primary=place,
                notes=(f"{reason}{where}", "what was there before is as it was"),
            )
        )

"""Write a plan, and say why when that cannot be done."""

from collections.abc import Mapping
from pathlib import Path

from mstarc.cli.inputs import shown_path
from mstarc.cli.replace import not_written
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
        text = f"the plan could not be written to `{name}`"
        notes = ["what was there before is as it was"]
        if error.filename and Path(error.filename) in folder.absolute().parents:
            notes.insert(0, f"it is about `{shown_path(Path(error.filename))}`")
        sink.report(not_written(name, text, error, *notes))

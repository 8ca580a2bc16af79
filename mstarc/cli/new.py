"""`mstarc new my_model`: a spec to start from, with a comment for every part."""

import re
from importlib.resources import files
from pathlib import Path

import click

from mstarc.cli.inputs import shown_path
from mstarc.cli.output import EXIT_OK, combined_report, format_option, print_report, progress
from mstarc.cli.replace import create_file
from mstarc.diagnostics import DiagnosticSink

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# What the file that is copied calls its model.
_PLACEHOLDER = "my_model"


@click.command("new")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(readable=False, path_type=Path, dir_okay=False),
    help="The file to write. [default: NAME.mstar]",
)
@format_option
def command(name: str, output: Path | None, output_format: str | None) -> int:
    """Write a commented spec of a model NAME, to start from."""
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"a model cannot be named `{name}`{_nearest(name)}")
    path = output if output is not None else Path(f"{name}.mstar")
    sink = DiagnosticSink()
    shown = shown_path(path)
    create_file(path, starting_spec(name), sink)
    code = print_report(combined_report(sink, [], f"write `{shown}`"), output_format)
    if code == EXIT_OK:
        progress(f"wrote {shown}")
        progress(f"next: mstarc lint {shown}, mstarc show {shown}")
    return code


def starting_spec(name: str) -> str:
    """The text of a spec whose model has this name; it compiles and has no findings."""
    text = (files("mstarc.cli") / "new.mstar").read_text(encoding="utf-8")
    return re.sub(rf"\b{_PLACEHOLDER}\b", name, text)


def _nearest(name: str) -> str:
    near = re.sub(r"\W+", "_", name).strip("_")
    if _NAME.fullmatch(near):
        return f"; did you mean `{near}`?"
    return "; a name begins with a letter, and goes on with letters, digits and `_`"

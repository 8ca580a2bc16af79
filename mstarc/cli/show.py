"""`mstarc show specs/orpheus.mstar decode --as mermaid`: draw a model or a part of one."""

import shutil
import sys
from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.inputs import shown_path
from mstarc.cli.output import (
    EXIT_OK,
    combined_report,
    format_option,
    is_coloured,
    print_report,
    progress,
)
from mstarc.cli.replace import replace_file
from mstarc.cli.settings import deployment_option, placement_option, read_inputs, sizes_option
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.graph import Program
from mstarc.show.picture import Picture
from mstarc.source import SourceFile

_WIDTH_OF_FILES = 100


@click.command("show")
@click.argument("spec", type=click.Path(readable=False, path_type=Path))
@click.argument("name", required=False, metavar="[WALK|MACHINE]")
@click.option(
    "--as",
    "form",
    type=click.Choice(["terminal", "mermaid", "dot", "svg", "html"]),
    default="terminal",
    show_default=True,
    help="What to draw. html is one page that steps through a request.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(readable=False, path_type=Path, dir_okay=False),
    help="A file to write. [default: stdout]",
)
@placement_option
@deployment_option
@sizes_option
@format_option
def command(
    spec: Path,
    name: str | None,
    form: str,
    output: Path | None,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    sizes: Path | None,
    output_format: str | None,
) -> int:
    """Draw the model of SPEC, or one of its walks or machines.

    With --placement or --deployment also where everything runs.
    """
    if len(placements) > 1 or len(deployments) > 1:
        raise click.UsageError("a picture shows one placement: give --placement once")
    if form == "html" and name is not None:
        raise click.UsageError("the page steps through the whole model: leave the name out")
    sink = DiagnosticSink()
    attempt = f"show `{shown_path(spec)}`"
    inputs = read_inputs(spec, placements, deployments, sizes, sink)
    if inputs is None:
        return print_report(combined_report(sink, [], attempt), output_format)
    source, options = inputs
    placed = bool(placements or deployments)
    found = driver.picture_of(source, options, name, placed=placed)
    if isinstance(found, driver.Outcome):
        return print_report(combined_report(sink, [found], attempt), output_format)
    text = _drawn(form, found[0], found[1], source, to_file=output is not None)
    if output is None:
        sys.stdout.write(text)
        return EXIT_OK
    replace_file(output, text, sink)
    code = print_report(combined_report(sink, [], attempt), output_format)
    if code == EXIT_OK:
        progress(f"wrote {shown_path(output)}")
    return code


def _drawn(
    form: str,
    picture: Picture,
    program: Program,
    source: SourceFile,
    *,
    to_file: bool,
) -> str:
    if form == "terminal":
        from mstarc.show.terminal import terminal

        colour = is_coloured() and not to_file
        is_terminal = sys.stdout.isatty() and not to_file
        columns = shutil.get_terminal_size().columns if is_terminal else _WIDTH_OF_FILES
        return terminal(picture, width=max(60, columns), colour=colour)
    if form == "html":
        from mstarc.show.page import page

        return page(picture, program, source)
    from mstarc.show.forms import FORMS

    return FORMS[form](picture)

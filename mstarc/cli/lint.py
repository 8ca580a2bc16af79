"""`mstarc lint specs/*.mstar`: what is wrong, without writing anything."""

from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.inputs import read_sources, shown_path
from mstarc.cli.output import combined_report, format_option, print_report
from mstarc.diagnostics import DiagnosticSink


@click.command("lint")
@click.argument(
    "specs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SPEC..."
)
@format_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also when there are findings.")
def command(specs: tuple[Path, ...], output_format: str | None, exit_zero: bool) -> int:
    """Report what is wrong in each SPEC."""
    sink = DiagnosticSink()
    outcomes = [driver.check(source) for source in read_sources(specs, sink)]
    what = f"`{shown_path(specs[0])}`" if len(specs) == 1 else f"{len(specs)} specs"
    code = print_report(combined_report(sink, outcomes, f"accept {what}"), output_format)
    return 0 if exit_zero and code == 1 else code

"""`mstarc check plan/`: whether a plan is as it was written."""

from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.inputs import read_folder, shown_path
from mstarc.cli.output import combined_report, format_option, print_report, progress
from mstarc.diagnostics import DiagnosticSink


@click.command("check")
@click.argument(
    "plans",
    nargs=-1,
    required=True,
    type=click.Path(readable=False, path_type=Path),
    metavar="PLAN...",
)
@format_option
def command(plans: tuple[Path, ...], output_format: str | None) -> int:
    """Compare the files of each PLAN with the digests in its plan.json."""
    sink = DiagnosticSink()
    outcomes = []
    for plan in plans:
        files = read_folder(plan, sink)
        if files is not None:
            outcomes.append(driver.check_plan(shown_path(plan), files))
    what = f"`{shown_path(plans[0])}`" if len(plans) == 1 else f"{len(plans)} plans"
    report = combined_report(sink, outcomes, f"accept {what}")
    if not report.diagnostics:
        progress(f"{what}: as written")
    return print_report(report, output_format)

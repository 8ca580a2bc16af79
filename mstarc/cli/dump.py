"""`mstarc dump specs/orpheus.mstar --after place`: what a stage or a pass made."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.inputs import shown_path
from mstarc.cli.output import combined_report, format_option, print_report
from mstarc.cli.settings import (
    deployment_option,
    placement_option,
    read_inputs,
    sizes_option,
    stage_option,
)
from mstarc.diagnostics import DiagnosticSink


@click.command("dump")
@click.argument("spec", type=click.Path(readable=False, path_type=Path))
@stage_option("--after", required=True, help="The stage or pass whose result to print.")
@placement_option
@deployment_option
@sizes_option
@format_option
def command(
    spec: Path,
    after: str,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    sizes: Path | None,
    output_format: str | None,
) -> int:
    """Print what a stage or a pass makes of SPEC."""
    sink = DiagnosticSink()
    attempt = f"compile `{shown_path(spec)}`"
    inputs = read_inputs(spec, placements, deployments, sizes, sink)
    if inputs is None:
        return print_report(combined_report(sink, [], attempt), output_format)
    source, options = inputs
    outcome = driver.compile_spec(source, replace(options, stop_after=after, dump_after=after))
    sys.stdout.write(outcome.dump)
    return print_report(combined_report(sink, [outcome], attempt), output_format)

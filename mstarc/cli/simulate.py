"""`mstarc simulate plan/ --placement 8xH200 --rate 40`: how a placement does under load."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mstarc import driver
from mstarc.cli.inputs import read_source, shown_path
from mstarc.cli.output import EXIT_OK, combined_report, print_report
from mstarc.cli.place import placeable_inputs
from mstarc.cli.settings import (
    deployment_option,
    knowledge_options,
    objective_option,
    placement_option,
    requests_option,
    sizes_option,
)
from mstarc.diagnostics import DiagnosticSink

if TYPE_CHECKING:
    from mstarc.ir.decisions import Placement


@click.command("simulate")
@click.argument("what", metavar="SPEC|PLAN", type=click.Path(readable=False, path_type=Path))
@placement_option
@deployment_option
@objective_option
@requests_option
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Requests a second.")
@click.option("--burst", type=click.IntRange(1), help="Requests that come at once, instead.")
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="How long requests come.",
)
@click.option("--seed", default=0, show_default=True, help="Of all that is drawn.")
@sizes_option
@knowledge_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to show the answer.",
)
def command(
    what: Path,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    objective: str | None,
    requests: Path | None,
    rate: float | None,
    burst: int | None,
    seconds: float,
    seed: int,
    sizes: Path | None,
    kinds: Path | None,
    profile: Path | None,
    checkpoints: tuple[str, ...],
    output_format: str,
) -> int:
    """Simulate SPEC, or a compiled PLAN, on the devices of --placement, under a load of requests.

    The schedule is the runtime's own, the times are estimates, or measured: --profile.
    """
    if rate is None and burst is None:
        raise click.UsageError("say how requests come: --rate, or --burst")
    if rate is not None and burst is not None:
        raise click.UsageError("requests come at a rate or at once: leave --rate or --burst out")
    if len(placements) > 1 or len(deployments) > 1:
        raise click.UsageError("one placement is simulated: give --placement once")
    sink = DiagnosticSink()
    attempt = f"simulate `{shown_path(what)}`"
    known = None
    if objective is None and not deployments:
        known = _placement_of_plan(what, placements, sink)
    if known is not None:
        from mstarc.codegen.known import devices_of

        placements = (devices_of(known),)
    inputs = placeable_inputs(
        what,
        placements,
        deployments,
        sizes,
        sink,
        kinds=kinds,
        profile=profile,
        checkpoints=checkpoints,
    )
    mix = None if requests is None else read_source(requests, sink)
    if inputs is None or sink.has_errors:
        return print_report(combined_report(sink, [], attempt), None)
    source, options = inputs
    found = driver.simulate_program(
        source,
        replace(options, objective=objective),
        mix,
        rate=rate or 1.0,
        seconds=seconds,
        burst=burst,
        seed=seed,
        known=known,
    )
    if isinstance(found, driver.Outcome):
        return print_report(combined_report(sink, [found], attempt), None)
    from mstarc.simulate.result import result_json, result_text

    sys.stdout.write(result_json(found) if output_format == "json" else result_text(found))
    return EXIT_OK


def _placement_of_plan(
    what: Path, placements: tuple[str, ...], sink: DiagnosticSink
) -> "Placement | None":
    """The placement of a plan that has one of the name that is asked for, or only one."""
    names = placements or tuple(
        sorted(path.name for path in (what / "placements").glob("*") if path.is_dir())
    )
    file = what / "placements" / names[0] / "placement.json" if len(names) == 1 else None
    if file is None or not file.is_file():
        return None
    from mstarc.codegen.known import placement_of

    text = read_source(file, sink)
    return None if text is None else placement_of(text.text)

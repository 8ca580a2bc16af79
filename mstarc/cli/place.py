"""`mstarc place plan/ --placement 2xH200`: find where a spec or a plan runs best, and say why."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mstarc import driver
from mstarc.cli.inputs import read_source, shown_path
from mstarc.cli.output import EXIT_OK, combined_report, is_coloured, print_report, progress
from mstarc.cli.replace import replace_file
from mstarc.cli.settings import (
    at_once_option,
    knowledge_options,
    objective_option,
    placement_option,
    read_inputs,
    requests_option,
    settings_option,
    sizes_option,
)
from mstarc.codegen.write import PLAN_FILE
from mstarc.diagnostics import DiagnosticSink
from mstarc.options import CompileOptions
from mstarc.source import SourceFile

if TYPE_CHECKING:
    from mstarc.show.placing import Placing

PROGRAM_FILE = "program.mir"


@click.command("place")
@click.argument("what", metavar="SPEC|PLAN", type=click.Path(readable=False, path_type=Path))
@placement_option
@objective_option
@requests_option
@at_once_option
@settings_option
@sizes_option
@knowledge_options
@click.option(
    "--write",
    type=click.Path(readable=False, path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A deployment file to write, for --deployment.",
)
@click.option(
    "--runners-up", default=4, show_default=True, type=click.IntRange(0, 50), help="How many."
)
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
    objective: str | None,
    requests: Path | None,
    at_once: int | None,
    settings: tuple[str, ...],
    sizes: Path | None,
    kinds: Path | None,
    profile: Path | None,
    checkpoints: tuple[str, ...],
    write: Path | None,
    runners_up: int,
    output_format: str,
) -> int:
    """Find the best placement of SPEC, or of a compiled PLAN, on the devices of --placement.

    All ways are weighed: which nodes share a rank, nodes cut over ranks, parts of a node by walk
    and by context on ranks of their own, and copies of ranks.
    """
    if len(placements) > 1:
        raise click.UsageError("one answer is for one set of devices: give --placement once")
    sink = DiagnosticSink()
    attempt = f"place `{shown_path(what)}`"
    inputs = placeable_inputs(
        what,
        placements,
        (),
        sizes,
        sink,
        kinds=kinds,
        profile=profile,
        checkpoints=checkpoints,
        settings=settings,
    )
    mix = None if requests is None else read_source(requests, sink)
    if inputs is None or sink.has_errors:
        return print_report(combined_report(sink, [], attempt), None)
    source, options = inputs
    options = replace(options, objective=objective)
    found = driver.place_program(source, options, mix, keep=runners_up + 1, at_once=at_once)
    if isinstance(found, driver.Outcome):
        return print_report(combined_report(sink, [found], attempt), None)
    _show(found, output_format)
    if write is None:
        return EXIT_OK
    from mstarc.show.deployment import deployment_text

    replace_file(write, deployment_text(found.program), sink)
    code = print_report(combined_report(sink, [], attempt), None)
    if code == EXIT_OK:
        progress(f"wrote {shown_path(write)}")
    return code


def placeable_inputs(
    what: Path,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    sizes: Path | None,
    sink: DiagnosticSink,
    *,
    kinds: Path | None,
    profile: Path | None,
    checkpoints: tuple[str, ...],
    settings: tuple[str, ...] = (),
) -> tuple[SourceFile, CompileOptions] | None:
    """A spec, or the program of a plan's folder, and what it is placed with."""
    is_plan = (what / PLAN_FILE).is_file()
    if is_plan and sizes is not None:
        raise click.UsageError("a plan has its sizes already: leave --sizes out")
    if is_plan and settings:
        raise click.UsageError("a plan has its settings already: leave --set out")
    inputs = read_inputs(
        what / PROGRAM_FILE if is_plan else what,
        placements,
        deployments,
        sizes,
        sink,
        kinds=kinds,
        profile=profile,
        checkpoints=checkpoints,
        settings=settings,
        programs=True,
    )
    if inputs is None or not is_plan:
        return inputs
    return inputs[0], replace(inputs[1], sizes=_sizes_in(what, inputs[0], sink))


def _sizes_in(plan: Path, program: SourceFile, sink: DiagnosticSink) -> SourceFile | None:
    """What the plan says of weights and its program does not."""
    from mstarc.codegen.further import sizes_of

    document = read_source(plan / PLAN_FILE, sink)
    if document is None:
        return None
    return sizes_of({PLAN_FILE: document.text, PROGRAM_FILE: program.text})


def _show(found: "Placing", output_format: str) -> None:
    from mstarc.show.placing import placing_json, placing_text

    if output_format == "json":
        sys.stdout.write(placing_json(found))
    else:
        sys.stdout.write(placing_text(found, colour=is_coloured()))

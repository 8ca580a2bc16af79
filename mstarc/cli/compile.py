"""`mstarc compile specs/orpheus.mstar -o plan/`."""

import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.find_spec import YAML
from mstarc.cli.inputs import read_source, read_sources, shown_path
from mstarc.cli.output import combined_report, format_option, print_report, progress
from mstarc.cli.save import save_plan
from mstarc.cli.settings import (
    at_once_option,
    deployment_option,
    knowledge_options,
    objective_option,
    placement_option,
    read_inputs,
    refuse_idle_search,
    requests_option,
    settings_option,
    sizes_option,
    stage_option,
)
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile


@click.command("compile")
@click.argument("spec", type=click.Path(readable=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(readable=False, path_type=Path),
    help="The plan's folder. [default: NAME.plan]",
)
@placement_option
@deployment_option
@settings_option
@click.option("--variant", metavar="NAME", help="A variant of the model, where no deployment says.")
@sizes_option
@knowledge_options
@objective_option
@requests_option
@at_once_option
@stage_option("--stop-after", help="Go as far as a stage or pass, and write nothing.")
@stage_option("--dump-after", help="Print what a stage or pass made.")
@click.option(
    "--require-graphs", is_flag=True, help="A call in a loop that no CUDA graph holds is an error."
)
@click.option("--time-passes", is_flag=True, help="Say how long each stage and pass took.")
@format_option
def command(
    spec: Path,
    output: Path | None,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    settings: tuple[str, ...],
    variant: str | None,
    sizes: Path | None,
    kinds: Path | None,
    profile: Path | None,
    checkpoints: tuple[str, ...],
    objective: str | None,
    requests: Path | None,
    at_once: int | None,
    stop_after: str | None,
    dump_after: str | None,
    require_graphs: bool,
    time_passes: bool,
    output_format: str | None,
) -> int:
    """Make a plan of SPEC: the generated Python that the runtime executes.

    SPEC may be a deployment file: the plan is then of the spec of its model, beside it or in the
    folder above, in `specs/`, or among those that mstarc ships.
    """
    started = time.perf_counter()
    if variant is not None and (deployments or spec.suffix in YAML):
        raise click.UsageError("a deployment names its variant itself, as its `model`")
    searched = {"--objective": objective, "--requests": requests, "--at-once": at_once}
    refuse_idle_search(searched, (spec,) if spec.suffix in YAML else deployments)
    sink = DiagnosticSink()
    attempt = f"compile `{shown_path(spec)}`"
    inputs = read_inputs(
        spec,
        placements,
        deployments,
        sizes,
        sink,
        kinds=kinds,
        profile=profile,
        checkpoints=checkpoints,
        settings=settings,
    )
    mix = None if requests is None else read_source(requests, sink)
    if inputs is None or sink.has_errors:
        return print_report(
            combined_report(sink, [], attempt, read_sources((spec,), DiagnosticSink())),
            output_format,
        )
    source, options = inputs
    outcome = driver.compile_spec(
        source,
        replace(
            options,
            objective=objective,
            requests=mix,
            at_once=at_once,
            variant=variant,
            stop_after=stop_after,
            dump_after=dump_after,
            require_graphs=require_graphs,
        ),
    )
    sys.stdout.write(outcome.dump)
    if not options.placements and outcome.files is not None:
        for file in options.deployments:
            _say_devices(file, options.default_kind)
    if outcome.files is not None:
        folder = output if output is not None else Path(f"{spec.stem}.plan")
        save_plan(outcome.files, folder, sink)
        if not sink.has_errors:
            seconds = time.perf_counter() - started
            progress(f"{shown_path(folder)}: {len(outcome.files)} files in {seconds:.2f} s")
    if time_passes:
        for name, seconds in outcome.seconds:
            progress(f"{seconds * 1000:8.1f} ms  {name}")
    return print_report(combined_report(sink, [outcome], attempt), output_format)


def _say_devices(deployment: SourceFile, kind: str) -> None:
    """Tell what a deployment is placed on that does not say it."""
    if re.search(r"^devices[ \t]*:", deployment.text, re.MULTILINE) is None:
        progress(
            f"{deployment.path} names no devices: placed on {kind}s (`--placement H100` or a line "
            "`devices:` says others)"
        )

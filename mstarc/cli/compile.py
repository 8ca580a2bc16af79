"""`mstarc compile specs/orpheus.mstar -o plan/`."""

import sys
import time
from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.inputs import read_source, read_sources, shown_path
from mstarc.cli.output import combined_report, format_option, print_report, progress
from mstarc.cli.save import save_plan
from mstarc.diagnostics import DiagnosticSink
from mstarc.options import STAGES, CompileOptions


@click.command("compile")
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The plan's folder. [default: NAME.plan]",
)
@click.option(
    "--placement",
    "placements",
    multiple=True,
    metavar="DEVICES",
    help="Devices to place on, such as cpu, 2xcpu or 1xH200; may be given again. [default: cpu]",
)
@click.option(
    "--deployment",
    "deployments",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A deployment file that says where nodes run; may be given again.",
)
@click.option(
    "--sizes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Sizes that replace the spec's config values: a .yaml, or a checkpoint's config.json.",
)
@click.option("--stop-after", type=click.Choice(STAGES), help="Check up to a stage; write nothing.")
@click.option("--dump-after", metavar="STAGE", help="Print what a stage or a pass made.")
@click.option(
    "--require-graphs", is_flag=True, help="Calls that no CUDA graph can hold are errors."
)
@click.option("--time-passes", is_flag=True, help="Say how long each stage and pass took.")
@format_option
def command(
    spec: Path,
    output: Path | None,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    sizes: Path | None,
    stop_after: str | None,
    dump_after: str | None,
    require_graphs: bool,
    time_passes: bool,
    output_format: str | None,
) -> int:
    """Make a plan of SPEC: the generated Python that the runtime executes."""
    started = time.perf_counter()
    sink = DiagnosticSink()
    attempt = f"compile `{shown_path(spec)}`"
    source = read_source(spec, sink)
    deployment_sources = tuple(read_sources(deployments, sink))
    sizes_source = None if sizes is None else read_source(sizes, sink)
    if source is None or sink.has_errors:
        return print_report(combined_report(sink, [], attempt), output_format)
    options = CompileOptions(
        placements=placements,
        deployments=deployment_sources,
        sizes=sizes_source,
        stop_after=stop_after,
        dump_after=dump_after,
        require_graphs=require_graphs,
    )
    outcome = driver.compile_spec(source, options)
    sys.stdout.write(outcome.dump)
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

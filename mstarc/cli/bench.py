"""`mstarc bench`: load on plans and servers; with --calibrate or --weigh, what ops cost.

The runtime measures, in a process of its own: this one never imports torch. `bench_load` reads what
loads are asked for.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from mstarc.cli.bench_load import load_options, run_bench
from mstarc.cli.inputs import read_folder, shown_path
from mstarc.cli.output import combined_report, print_report, progress
from mstarc.cli.replace import replace_file
from mstarc.cli.run import look_for_packages
from mstarc.codegen.write import PLAN_FILE
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span

_PROGRAM = "program.mir"


@click.command("bench")
@click.argument("targets", nargs=-1, metavar="PLAN|URL...")
@load_options
@click.option("--calibrate", "what", flag_value="ops", help="Seconds of each op, and the machine.")
@click.option("--weigh", "what", flag_value="weigh", help="Bytes of weights alone, at once.")
@click.option(
    "-o",
    "--output",
    type=click.Path(readable=False, path_type=Path),
    default=Path("profile.yaml"),
    show_default=True,
    help="The profile of --calibrate and --weigh, for `--profile`.",
)
@click.option("--device", default="cpu", show_default=True, help="The kind that is calibrated.")
@click.option("--batches", default="1,2,4,8", show_default=True, help="Requests in a call.")
@click.option("--rows", default="16,64,256", show_default=True, help="Rows of a free size.")
@click.option("--context", default=64, show_default=True, help="Rows of a context before a call.")
@click.option("--threads", default=2, show_default=True, help="Threads for tensor arithmetic.")
def command(
    targets: tuple[str, ...],
    what: str | None,
    output: Path,
    device: str,
    batches: str,
    rows: str,
    context: int,
    threads: int,
    **load: Any,
) -> int:
    """Put load on plans and servers, and say what they make of it.

    With --concurrency or --rate, each PLAN is run in processes of its own and each URL is asked as
    OpenAI's servers are, one after the other, with the same requests. With --calibrate or --weigh
    the nodes of one PLAN are measured alone, with random weights, into a profile that placements
    read.
    """
    if what is None:
        return run_bench(targets, load, threads)
    if len(targets) != 1:
        raise click.UsageError("one PLAN at a time is calibrated or weighed")
    plan = Path(targets[0])
    sink = DiagnosticSink()
    attempt = f"measure `{shown_path(plan)}`"
    files = read_folder(plan, sink)
    if files is not None and not {PLAN_FILE, _PROGRAM} <= files.keys():
        _report(sink, plan, f"it has no `{PLAN_FILE}` and `{_PROGRAM}`")
    look_for_packages(sink)
    if files is None or sink.has_errors:
        return print_report(combined_report(sink, [], attempt), None)
    # Loaded here: other commands measure nothing.
    from mstarc.analysis.calibration import calibration_job, profile_of
    from mstarc.deployment import CATALOG, device_kind
    from mstarc.deployment.profile import print_profile
    from mstarc.ir.text import MirSyntaxError, parse_program

    kind = device_kind(device)
    if kind is None:
        known = ", ".join(kind.name for kind in CATALOG)
        raise click.UsageError(f"there is no device kind `{device}`; kinds are {known}")
    text = files[_PROGRAM].decode()
    try:
        program = parse_program(text, f"{shown_path(plan)}/{_PROGRAM}")
        document = json.loads(files[PLAN_FILE])
    except (MirSyntaxError, ValueError):
        _report(sink, plan, f"its `{PLAN_FILE}` or `{_PROGRAM}` was edited")
        return print_report(combined_report(sink, [], attempt), None)
    job = calibration_job(
        program,
        {node["name"]: node["weights"].get("config", {}) for node in document["nodes"]},
        what=what,
        device=device,
        dtype=kind.dtype,
        batches=_numbers("--batches", batches),
        rows=_numbers("--rows", rows),
        context=context,
        threads=threads,
    )
    result = _measured(job)
    if result is None:
        return 2
    for entry in result["skipped"]:
        progress(f"left out: {entry['op']}: {entry['why']}")
    profile = profile_of(program, kind.name, result)
    replace_file(output, print_profile(profile), sink)
    if not sink.has_errors:
        count = sum(len(points) for points in profile.ops.values())
        weighed = f"weights of {len(profile.weights)} nodes"
        progress(f"{shown_path(output)}: {weighed}, {count} calls of {len(profile.ops)} ops")
    return print_report(combined_report(sink, [], attempt), None)


def _numbers(option: str, text: str) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise click.UsageError(f"{option} is a list of whole numbers, such as `1,2,4`")
    return found


def _measured(job: dict[str, Any]) -> dict[str, Any] | None:
    """What the runtime says; none where it could not do the job, and has said why."""
    process = subprocess.run(
        [sys.executable, "-m", "mstarc_runtime.calibration"],
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        return None
    found: dict[str, Any] = json.loads(process.stdout)
    return found


def _report(sink: DiagnosticSink, plan: Path, why: str) -> None:
    name = shown_path(plan)
    sink.report(
        Diagnostic(
            code="MS0008",
            message=f"`{name}` is not a plan",
            primary=Label(span=Span(path=name, start=0, end=0), text=why),
            notes=(why,),
            helps=("`mstarc compile SPEC -o PLAN` makes one",),
        )
    )

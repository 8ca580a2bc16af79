"""`mstarc run PLAN …`: hand over to the runtime, which is another program in another process.

This process never imports torch: it looks whether the runtime's packages are there, and becomes
`python -m mstarc_runtime` with the same arguments.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click

from mstarc.cli.inputs import shown_path
from mstarc.cli.output import combined_report, print_report, progress
from mstarc.codegen.write import PLAN_FILE
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span

NEEDED = (
    "mstarc_runtime",
    "msgspec",
    "numpy",
    "rich",
    "safetensors",
    "soundfile",
    "tokenizers",
    "torch",
    "zmq",
)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INSTALL = 'pip install "mstarc[run]"'


@click.command(
    "run",
    # The runtime knows its options, --help among them.
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="PLAN [OPTIONS]...")
def command(arguments: tuple[str, ...]) -> int:
    """Execute a plan. `mstarc run --help` shows what the runtime can be asked."""
    sink = DiagnosticSink()
    plan = Path(arguments[0]) if arguments and not arguments[0].startswith("-") else None
    if plan is not None:
        look_at_plan(plan, sink)
        if not sink.has_errors:
            place_where_needed(plan, arguments, sink)
    look_for_packages(sink)
    if not sink.has_errors:
        _become_the_runtime(arguments)
    what = "the runtime" if plan is None else f"`{shown_path(plan)}`"
    return print_report(combined_report(sink, [], f"run {what}"), None)


def place_where_needed(plan: Path, arguments: Sequence[str], sink: DiagnosticSink) -> None:
    """Place a plan again on the devices that --placement names, if it lacks such a placement.

    A name that is no devices is left to the runtime, which knows what placements there are.
    """
    devices = _asked_placement(arguments)
    if devices is None or (plan / "placements" / devices).is_dir():
        return
    # Loaded here: nearly every run has its placement.
    from mstarc import driver
    from mstarc.cli.inputs import read_folder, read_source
    from mstarc.cli.save import save_plan
    from mstarc.deployment import parse_devices

    if parse_devices(devices) is None:
        return
    check = driver.check_plan(shown_path(plan), read := read_folder(plan, sink) or {})
    if check.diagnostics:
        return  # the runtime says what is wrong with it
    files = {name: content.decode() for name, content in read.items()}
    spec = Path(json.loads(files[PLAN_FILE])["spec"])
    source = read_source(spec, DiagnosticSink()) if spec.is_file() else None
    outcome = driver.place_plan_again(files, devices, source)
    for found in outcome.diagnostics:
        sink.report(found)
    if outcome.files is not None:
        save_plan(outcome.files, plan, sink)
        progress(f"{shown_path(plan)}: placed on {devices}")


def _asked_placement(arguments: Sequence[str]) -> str | None:
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        if word == "--placement":
            return following or None
        if word.startswith("--placement="):
            return word.partition("=")[2] or None
    return None


def _become_the_runtime(arguments: tuple[str, ...]) -> NoReturn:
    sys.stdout.flush()
    # A Ctrl-C waits until the runtime can take it: its interpreter, just begun, would show a trace.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        os.execv(sys.executable, [sys.executable, "-m", "mstarc_runtime", *arguments])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def look_at_plan(plan: Path, sink: DiagnosticSink) -> None:
    """Report (MS0008) a folder that is not a plan."""
    if (plan / PLAN_FILE).is_file():
        return
    name = shown_path(plan)
    if plan.is_dir():
        why = f"there is no `{name}/{PLAN_FILE}`"
    else:
        why = "it is not a folder" if plan.exists() else "no such folder"
    found = Diagnostic(
        code="MS0008",
        message=f"`{name}` is not a plan",
        # The label is for formats of one line: no text is there to draw it under.
        primary=Label(span=Span(path=name, start=0, end=0), text=why),
        notes=(why,),
        helps=(
            f"compile it first: `mstarc compile {name} -o plan`, then `mstarc run plan`"
            if plan.suffix == ".mstar"
            else "`mstarc compile SPEC -o PLAN` makes one",
        ),
    )
    sink.report(found)


def look_for_packages(sink: DiagnosticSink) -> None:
    """Report (MS0006) packages of the runtime that are not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        return
    found = Diagnostic(
        code="MS0006",
        message="the runtime is not installed",
        primary=Label(span=Span(path="", start=0, end=0)),
        notes=(f"not found: {', '.join(missing)}",),
        helps=(f"install it with `{INSTALL}`",),
    )
    sink.report(found)

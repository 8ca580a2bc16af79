"""`mstarc run PLAN …`: hand over to the runtime, which is another program in another process.

This process never imports torch: it looks whether the runtime's packages are there, and becomes
`python -m mstarc_runtime` with the same arguments.
"""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click

from mstarc.cli.inputs import shown_path
from mstarc.cli.output import combined_report, print_report
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
    look_for_packages(sink)
    if not sink.has_errors:
        _become_the_runtime(arguments)
    what = "the runtime" if plan is None else f"`{shown_path(plan)}`"
    return print_report(combined_report(sink, [], f"run {what}"), None)


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

"""`mstarc serve PLAN …`: hand over to the runtime's server, another program in another process.

As `run` does; the packages of the extra `serve` are needed too.
"""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import click

from mstarc.cli import run
from mstarc.cli.inputs import shown_path
from mstarc.cli.output import combined_report, print_report
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span

NEEDED = (*run.NEEDED, "multipart", "prometheus_client", "starlette", "uvicorn")
INSTALL = 'pip install "mstarc[run,serve]"'
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(
    "serve",
    # The runtime knows its options, --help among them.
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="PLAN [OPTIONS]...")
def command(arguments: tuple[str, ...]) -> int:
    """Serve a plan over HTTP. `mstarc serve --help` shows what can be said."""
    sink = DiagnosticSink()
    plan = Path(arguments[0]) if arguments and not arguments[0].startswith("-") else None
    if plan is not None:
        run.look_at_plan(plan, sink)
        if not sink.has_errors:
            run.place_where_needed(plan, arguments, sink)
    _look_for_packages(sink)
    if not sink.has_errors:
        _become_the_server(arguments)
    what = "a plan" if plan is None else f"`{shown_path(plan)}`"
    return print_report(combined_report(sink, [], f"serve {what}"), None)


def _look_for_packages(sink: DiagnosticSink) -> None:
    """Report (MS0006) packages of the server that are not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        return
    found = Diagnostic(
        code="MS0006",
        message="the server is not installed",
        primary=Label(span=Span(path="", start=0, end=0)),
        notes=(f"not found: {', '.join(missing)}",),
        helps=(f"install it with `{INSTALL}`",),
    )
    sink.report(found)


def _become_the_server(arguments: tuple[str, ...]) -> NoReturn:
    sys.stdout.flush()
    # A Ctrl-C waits until the server can take it, as in `run`.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        os.execv(sys.executable, [sys.executable, "-m", "mstarc_runtime.server", *arguments])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""`mstarc top [URL]`: hand over to the runtime's view of a server, in this terminal.

As `serve` does; of the runtime's packages it needs `rich` alone.
"""

import os
import sys
from importlib.util import find_spec

import click

from mstarc.cli.output import combined_report, print_report
from mstarc.cli.run import INSTALL
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import Span

NEEDED = ("mstarc_runtime", "rich")


@click.command(
    "top",
    # The runtime knows its options, --help among them.
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[URL] [OPTIONS]...")
def command(arguments: tuple[str, ...]) -> int:
    """Show what a server does, in the terminal. `mstarc top --help` shows what can be said."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "mstarc_runtime.top", *arguments])
    sink = DiagnosticSink()
    sink.report(
        Diagnostic(
            code="MS0006",
            message="the runtime is not installed",
            primary=Label(span=Span(path="", start=0, end=0)),
            notes=(f"not found: {', '.join(missing)}",),
            helps=(f"install it with `{INSTALL}`",),
        )
    )
    return print_report(combined_report(sink, [], "show a server"), None)

"""How findings leave the process: the format, the colour, the exit code."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mstarc import __version__
from mstarc.diagnostics import DiagnosticSink
from mstarc.diagnostics.render import FORMATS, Report
from mstarc.source import SourceFile

if TYPE_CHECKING:
    # Only for its name: `mstarc --version` imports no stage of the compiler.
    from mstarc.driver import Outcome

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_UNABLE = 2

Command = TypeVar("Command", bound=Callable[..., Any])


def format_option(command: Command) -> Command:
    """Give a command `--format`; its value is none where the user leaves the choice to us."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(list(FORMATS)),
        help="How to show findings. [default: human on a terminal, github in GitHub Actions, "
        "else concise]",
    )(command)


def chosen_format(wanted: str | None) -> str:
    """The name of the format to use: the one asked for, or what suits the reader."""
    if wanted is not None:
        return wanted
    if os.environ.get("GITHUB_ACTIONS") == "true":
        return "github"
    return "human" if sys.stdout.isatty() else "concise"


def print_report(report: Report, wanted_format: str | None) -> int:
    """Write a report to stdout; the exit code that its findings ask for."""
    sys.stdout.write(FORMATS[chosen_format(wanted_format)](report))
    sys.stdout.flush()
    return exit_code(report)


def combined_report(
    sink: DiagnosticSink,
    outcomes: "Sequence[Outcome]",
    attempt: str,
    read: Sequence[SourceFile] = (),
) -> Report:
    """What the command itself found and what the compiler found, as one report.

    `read` are further texts that findings may be in.
    """
    sources = {source.path: source for source in read}
    sources |= {path: source for outcome in outcomes for path, source in outcome.sources.items()}
    for outcome in outcomes:
        for diagnostic in outcome.diagnostics:
            sink.report(diagnostic)
    return Report(
        diagnostics=sink.diagnostics,
        sources=sources,
        attempt=attempt,
        version=__version__,
        colour=is_coloured(),
    )


def exit_code(report: Report) -> int:
    """2 when the job could not be done (MS00xx, MS0900), 1 for other errors, else 0."""
    errors = [d.code for d in report.diagnostics if report.entry(d).severity == "error"]
    if any(code.startswith("MS00") or code == "MS0900" for code in errors):
        return EXIT_UNABLE
    return EXIT_FINDINGS if errors else EXIT_OK


def is_coloured() -> bool:
    """Whether stdout is a terminal whose user has not set NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def progress(text: str) -> None:
    """Say on stderr what is being done. Where nobody can read it, the work goes on."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)

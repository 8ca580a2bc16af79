"""What the user sees when a command line is wrong, and when we are."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from mstarc import __version__
from mstarc.cli.output import EXIT_UNABLE, is_coloured
from mstarc.diagnostics import Diagnostic, InternalError, Label, did_you_mean
from mstarc.diagnostics.render import FORMATS, Report
from mstarc.source import SourceFile, Span

EXIT_INTERRUPTED = 130
NOWHERE = Label(span=Span(path="", start=0, end=0))


def usage_report(error: click.UsageError, arguments: Sequence[str]) -> Report:
    """A wrong command line: what is wrong in it, and the nearest right word."""
    message = error.format_message().rstrip(".")
    message = (message[:1].lower() + message[1:]).replace("'", "`")
    helps: tuple[str, ...] = ()
    match error:
        case click.NoSuchOption():
            message = f"there is no option `{error.option_name}`"
            if nearest := error.possibilities:
                helps = (f"did you mean {_or(sorted(nearest))}?",)
        case _ if error.ctx is not None and isinstance(error.ctx.command, click.Group):
            helps = _nearest_command(error.ctx.command, error.ctx, arguments)
        case _:
            pass
    path = error.ctx.command_path if error.ctx is not None else "mstarc"
    helps = (*helps, f"`{path} --help` lists what there is")
    found = Diagnostic(code="MS0001", message=message, primary=NOWHERE, helps=helps)
    return _report(found, f"run `{shlex.join(['mstarc', *arguments])}`")


def _nearest_command(
    group: click.Group, context: click.Context, arguments: Sequence[str]
) -> tuple[str, ...]:
    words = [argument for argument in arguments if not argument.startswith("-")]
    nearest = did_you_mean(words[0], group.list_commands(context)) if words else ()
    return (f"did you mean {_or(nearest)}?",) if nearest else ()


def _or(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def failure_report(error: Exception, arguments: Sequence[str]) -> Report:
    """A mistake of ours: the stage, the spec's line where it is known, and how to report it."""
    import traceback  # loaded here: most commands do not fail

    cause = error.__cause__ or error
    last = traceback.extract_tb(cause.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    text = str(cause) or "no message"
    notes = [f"{type(cause).__name__} at {where}: {text}"]
    primary, sources = NOWHERE, dict[str, SourceFile]()
    if isinstance(error, InternalError):
        notes.insert(0, f"it happened in the stage `{error.stage}`")
        if error.span is not None:
            primary = Label(span=error.span, text="while compiling this")
            sources = _read_again(error.span.path)
    notes.append(f"mstarc {__version__}, Python {sys.version.split()[0]}")
    found = Diagnostic(
        code="MS0900",
        message="the compiler failed, not your spec",
        primary=primary,
        notes=tuple(notes),
        helps=(
            "report it with the spec and this text; `MSTARC_TRACEBACK=1` in the environment "
            "shows the whole trace",
        ),
    )
    return _report(found, f"run `{shlex.join(['mstarc', *arguments])}`", sources)


def _read_again(path: str) -> dict[str, SourceFile]:
    try:
        return {path: SourceFile(path=path, text=Path(path).read_text(encoding="utf-8"))}
    except (OSError, UnicodeDecodeError):
        return {}  # the place is shown without its text


def _report(
    found: Diagnostic, attempt: str, sources: dict[str, SourceFile] | None = None
) -> Report:
    return Report(
        diagnostics=(found,),
        sources=sources or {},
        attempt=attempt,
        version=__version__,
        colour=is_coloured(),
    )


def interrupted() -> int:
    """Ctrl-C: one line, and the exit code that shells know."""
    print("interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED


def no_output(error: OSError) -> int:
    """Stdout cannot be written, so stderr has why; the exit code."""
    found = Diagnostic(
        code="MS0004",
        message="stdout could not be written",
        primary=NOWHERE,
        notes=((error.strerror or type(error).__name__).lower(),),
    )
    with suppress(OSError):
        sys.stderr.write(FORMATS["human"](_report(found, "write to stdout")))
        sys.stderr.flush()
    return EXIT_UNABLE

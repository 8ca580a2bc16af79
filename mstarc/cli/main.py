"""The entry point: finds the command, imports only its file, and catches our own mistakes once."""

import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType

import click

from mstarc import __version__
from mstarc.cli.failures import failure_report, interrupted, no_output, usage_report
from mstarc.cli.output import EXIT_OK, EXIT_UNABLE, print_report
from mstarc.cli.streams import drop_output, prepare_streams

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "new": "write a spec to start from",
        "compile": "make a plan of a spec",
        "place": "find where a spec or a plan runs best",
        "simulate": "say how a placement does under load, without running it",
        "lint": "report what is wrong or odd in specs and deployments",
        "check": "compare a plan's files with their digests",
        "run": "execute a plan",
        "serve": "answer requests over HTTP with a plan",
        "top": "show what a server does, in the terminal",
        "bench": "put load on plans and servers, or measure a plan's ops",
        "explain": "say what a code means",
        "show": "draw a model, a walk, a machine or a placement",
        "lsp": "answer an editor: the language server",
        "dump": "print what a stage makes of a spec",
        "fmt": "write specs in the one canonical form",
    }
)


class _Commands(click.Group):
    """Imports a command's module when it is asked for, so that `--version` starts at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"mstarc.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_EPILOG = """\b
Begin with:
  mstarc new hello                      a commented spec
  mstarc lint hello.mstar               what is wrong or odd in it
  mstarc show hello.mstar               a picture of it
  mstarc compile hello.mstar -o plan    a plan, with a REPORT.md
  mstarc run plan --help                how to run one

\b
Exit status: 0 nothing to report, 1 findings, 2 the job could not be done.
`mstarc explain CODE` prints the page of a finding's code.
"""


@click.group(
    cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, "-V", "--version", prog_name="mstarc")
def mstarc() -> None:
    """Compile composite AI models, written as .mstar specs, into plans that the runtime runs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the process's arguments name, and exit with its code."""
    # A command ends soon. Searching its trees for circles, and taking them apart at the end node by
    # node, would be a third of `mstarc lint`.
    gc.disable()
    prepare_streams()
    # Whoever ends us, what is half written is removed as after Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    code = run_command(sys.argv[1:] if arguments is None else arguments)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and give back its exit code. Nothing escapes but what ends the process."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe went away (`mstarc explain MS0101 | head -1`): nothing to report.
        drop_output()
        return EXIT_OK
    except OSError as error:
        if not _is_of_a_stream(error):
            raise
        drop_output()
        return no_output(error)
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        result = mstarc.main(args=list(arguments), prog_name="mstarc", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return EXIT_UNABLE
    except click.UsageError as error:
        return print_report(usage_report(error, arguments), "human")
    except click.Abort:
        return interrupted()
    except KeyboardInterrupt:
        return interrupted()
    except Exception as error:
        if os.environ.get("MSTARC_TRACEBACK") or _is_of_a_stream(error):
            raise
        return print_report(failure_report(error, arguments), "human")
    return result if isinstance(result, int) else EXIT_OK


def _is_of_a_stream(error: Exception) -> bool:
    """Whether stdout could not be written: files of commands are reported where they are used."""
    return isinstance(error, OSError) and error.filename is None

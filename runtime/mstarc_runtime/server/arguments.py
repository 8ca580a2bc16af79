"""The words of `mstarc serve` → its options."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from mstarc_runtime.arguments import Parser, add_run_options, parse_words
from mstarc_runtime.server.limits import add_limits
from mstarc_runtime.supervision import Supervision


def parse_serve(arguments: Sequence[str]) -> argparse.Namespace:
    """The options that are given, and the others' defaults. Fails with MS9010."""
    parser = Parser(prog="mstarc serve", description="Serve a plan over HTTP.", allow_abbrev=False)
    parser.add_argument("plan", type=Path, nargs="?", help="the folder that `mstarc compile` wrote")
    parser.add_argument("--placement", metavar="NAME", help="where it runs, e.g. `cpu` or `2xcpu`")
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (this machine alone)"
    )
    parser.add_argument("--port", type=_port, default=8000, help="0 takes a free one")
    parser.add_argument(
        "--api-keys",
        type=Path,
        metavar="FILE",
        help="TOML with a table a client; without it, and without MSTARC_API_KEY, all are let in",
    )
    add_limits(parser)
    parser.add_argument(
        "--drain-timeout",
        type=_count,
        default=30,
        metavar="SECONDS",
        help="how long requests may go on after SIGTERM",
    )
    _add_supervision(parser)
    _add_seeing(parser)
    add_run_options(parser)
    return parse_words(parser, list(arguments))


def _add_supervision(parser: argparse.ArgumentParser) -> None:
    usual = Supervision()
    parser.add_argument(
        "--one-process",
        action="store_true",
        help="run the one rank of a placement in this process: it can't be started again alone",
    )
    parser.add_argument(
        "--restarts",
        type=_count,
        default=usual.restarts,
        metavar="N",
        help="processes of ranks that are started again, before the server gives up",
    )
    parser.add_argument(
        "--restart-window",
        type=_size,
        default=int(usual.window_s),
        metavar="SECONDS",
        help="the time in which they are counted",
    )
    parser.add_argument(
        "--silence-timeout",
        type=_size,
        default=int(usual.silence_s),
        metavar="SECONDS",
        help="how long a process may stand still before it is killed",
    )
    parser.add_argument(
        "--turn-timeout",
        type=_size,
        default=int(usual.turn_s),
        metavar="SECONDS",
        help="how long one step of a rank may last before its process is killed",
    )


def supervision(options: argparse.Namespace) -> Supervision | None:
    """What is done about processes that are lost; None where ranks are not processes."""
    if options.one_process:
        return None
    return Supervision(
        restarts=options.restarts,
        window_s=options.restart_window,
        silence_s=options.silence_timeout,
        turn_s=options.turn_timeout,
    )


def _add_seeing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-format",
        choices=("human", "json"),
        default="human",
        help="lines for people, or a JSON object a line",
    )
    parser.add_argument(
        "--log-level",
        choices=("info", "warning", "error"),
        default="info",
        help="what is worth a line; every request is at `info`",
    )
    parser.add_argument(
        "--traces",
        metavar="URL|FILE",
        help="where spans of OpenTelemetry go: a collector's address (OTLP over HTTP, "
        "`http://localhost:4318/v1/traces`), or a file of JSON lines",
    )


def _port(text: str) -> int:
    number = _whole(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"`{text}` is not a port")
    return number


def _count(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"`{text}` is less than 0")
    return number


def _size(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is less than 1")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number") from error

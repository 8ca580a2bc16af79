"""The words of `mstarc top` → a screen that goes on, or one picture where there is no terminal.

Exit status 0: somebody has quit, or the picture was printed; 2: no server is reached.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.settings import read_settings
from mstarc_runtime.top.feed import Feed, Frame
from mstarc_runtime.top.keys import Keys, keys_of_terminal
from mstarc_runtime.top.rates import rates_of
from mstarc_runtime.top.view import KEYS, view

_USUAL = "http://127.0.0.1:8000"
_WIDTH = 120
_STEPS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Shows a server, and returns the exit status."""
    try:
        options = _options(sys.argv[1:] if arguments is None else arguments)
        feed = Feed(options.url, options.key or read_settings().api_key)
        is_live = sys.stdout.isatty() and sys.stdin.isatty() and not options.once
        before = feed.frame()
        if is_live:
            with keys_of_terminal() as keys:
                _go_on(feed, before, keys, options.interval)
            return 0
        time.sleep(options.interval)
        # No colour and no codes of a terminal: somebody reads this in a file, or with a program.
        width = int(os.environ.get("COLUMNS") or _WIDTH)
        console = Console(width=width, color_system=None, force_terminal=False)
        now = feed.frame()
        console.print(view(now, rates_of(before, now), address=feed.address, most_steps=_STEPS))
    except RuntimeFailure as failure:
        print(render(failure), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def _go_on(feed: Feed, before: Frame, keys: Keys, interval_s: float) -> None:
    """Draws until somebody quits."""
    console = Console()
    now, most, is_paused, trouble = before, _STEPS, False, ""
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            said = trouble or (f"paused; {KEYS}" if is_paused else KEYS)
            rates = rates_of(before, now)
            shown = view(now, rates, address=feed.address, most_steps=most, said=said)
            screen.update(shown if console.width >= 20 else Text("too narrow"), refresh=True)
            match keys.next(interval_s):
                case "q" | "Q" | "\x1b" | "\x03" | "\x04" | "quit":
                    return
                case "p" | " ":
                    is_paused = not is_paused
                    continue
                case "+":
                    most += 4
                    continue
                case "-":
                    most = max(4, most - 4)
                    continue
            if is_paused:
                continue
            try:
                before, now, trouble = now, feed.frame(), ""
            except RuntimeFailure as failure:
                # What was seen last stays, since a server may be started again.
                trouble = f"{failure.message}; asking again. q quits"


class _Parser(argparse.ArgumentParser):
    """Fails with MS9010 in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        helps = ["`mstarc top --help` shows what can be said"]
        raise RuntimeFailure("MS9010", message.replace("'", "`"), helps=helps)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="mstarc top", description="Show what a server does.", allow_abbrev=False)
    parser.add_argument("url", nargs="?", default=_USUAL, help=f"its address ({_USUAL})")
    parser.add_argument("--key", help="an API key, where it wants one (also MSTARC_API_KEY)")
    parser.add_argument(
        "--interval", type=_seconds, default=0.5, metavar="SECONDS", help="between two looks"
    )
    parser.add_argument(
        "--once", action="store_true", help="print one picture, as where there is no terminal"
    )
    return parser.parse_args(list(arguments))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"`{text}` is no number") from error
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"`{text}` is not from 0.1 to 3600")
    return seconds

"""Keys of a terminal, one at a time, without waiting for the end of a line."""

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


class Keys:
    """The keys that are pressed at a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def next(self, timeout_s: float) -> str:
        """The next key; empty if none is pressed in that time. `quit` when the terminal is gone."""
        ready, _, _ = select.select([self._terminal], [], [], timeout_s)
        if not ready:
            return ""
        try:
            read = os.read(self._terminal, 64)
        except OSError:
            read = b""
        if not read:
            return "quit"
        # A key of several bytes, as an arrow, begins with the one that Escape is.
        return "" if read.startswith(b"\x1b") and len(read) > 1 else read[:1].decode("latin-1")


@contextmanager
def keys_of_terminal() -> Iterator[Keys]:
    """The terminal gives keys at once, and is as before afterwards."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield Keys(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)

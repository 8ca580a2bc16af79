"""Standard streams that take whatever a command says, wherever they lead."""

import io
import os
import sys
from contextlib import suppress


def prepare_streams() -> None:
    """Open what the caller closed, and let no letter be too much for stdout."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _lead_nowhere(number)
            mode = "w" if number else "r"
            # It stays open as long as the process lives.
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_utf8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "replace")


def drop_output() -> None:
    """Give up on stdout: what it still holds would fail once more when it is flushed at the end."""
    # A test's stdout has no number.
    with suppress(OSError):
        _lead_nowhere(sys.stdout.fileno())


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    # `mstarc run` becomes another program, and a file that it opens must not be its stdout.
    os.set_inheritable(number, True)

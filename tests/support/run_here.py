"""`mstarc run` in the process of the test: its ranks are processes still, where it has several."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from mstarc_runtime.command import main

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command came to."""

    status: int
    out: str
    err: str


def run_here(plan: Path, *words: str) -> Ran:
    """Seconds sooner than a process of its own, which would have to load torch."""
    out, err = StringIO(), StringIO()
    with _signals_kept(), redirect_stdout(out), redirect_stderr(err):
        status = main([str(plan), "--threads", "1", *words])
    return Ran(status=status, out=out.getvalue(), err=err.getvalue())


@contextmanager
def _signals_kept() -> Iterator[None]:
    before = [signal.getsignal(number) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)

"""What a person sees while weights are fetched.

Steps of a fetch (label, bytes) → a bar on a terminal, one plain line a step elsewhere. Goes to the
stream it is given (stderr by default): stdout belongs to results.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Shows steps. `step` gives a function that is told how many bytes are done so far."""

    def step(self, label: str, total_bytes: int | None) -> AbstractContextManager[Advance]: ...


class PlainProgress:
    """One line when a step begins."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    @contextmanager
    def step(self, label: str, total_bytes: int | None) -> Iterator[Advance]:
        size = f" ({total_bytes / 1e6:.0f} MB)" if total_bytes else ""
        print(f"{label}{size}", file=self._stream, flush=True)
        yield _ignore


def progress_to(stream: IO[str] | None = None) -> Progress:
    """The display that suits `stream`: bars on a terminal, lines in a file."""
    stream = stream or sys.stderr
    if not stream.isatty():
        return PlainProgress(stream)
    # Ranks have no terminal, and begin sooner without it.
    from mstarc_runtime.weights.bars import BarProgress

    return BarProgress(stream)


def _ignore(done: int) -> None:
    """A line, once written, does not grow."""

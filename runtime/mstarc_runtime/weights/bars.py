"""Bars on a terminal, for `progress`: a fetch → a bar that fills."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from mstarc_runtime.weights.progress import Advance


class BarProgress:
    """A bar that fills, kept on the screen when it is full."""

    def __init__(self, stream: IO[str]) -> None:
        self._console = Console(file=stream)

    @contextmanager
    def step(self, label: str, total_bytes: int | None) -> Iterator[Advance]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn() if total_bytes else TextColumn(""),
            TimeElapsedColumn(),
        )
        with RichProgress(*columns, console=self._console) as bars:
            task = bars.add_task(label, total=total_bytes)
            yield lambda done: bars.update(task, completed=done)
            bars.update(task, total=total_bytes or 1, completed=total_bytes or 1)

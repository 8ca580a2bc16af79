"""Rows of prompts that several requests of a step hold in the same pages: each is read once.

A step attends a request's rows in two levels. Its prompt's whole *chunks*, of `shared_chunk` rows
each, are the first: a task is one chunk for all requests of the batch that hold it in the same
pages, as many as a task takes. Everything else, its own rows, is the second.

How many chunks a request has follows from its prompt alone, and a chunk is attended by a task also
where nobody shares it: so who else is in the batch decides what is read, and never what is added to
what. A task names its pages itself, since a request that stops on the device loses those in its
table there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.step import StepRows
from mstarc_runtime.kvcache.tables import PageTables
from mstarc_runtime.run_choices import Cascade

_LEAST_CHUNK = 512
"""What a task leaves for each of its requests weighs a hundredth of so many rows."""
_MOST_CHUNKS = 32


def chunk_of(max_rows: int, page_size: int, cascade: Cascade) -> int:
    """Rows of a chunk of contexts of up to `max_rows`; 0 where steps attend none, or where pages
    do not divide one.

    Steps do so only if they are asked to: on an H200 a step of 32 requests of which none shares its
    prompt took two to three times as long, and one whose 16,384 rows all share 0.71 times
    (`benchmarks/cascade.py`).

    >>> chunk_of(8192, 16, "on"), chunk_of(131_072, 16, "on"), chunk_of(8192, 48, "on")
    (512, 4096, 0)
    >>> chunk_of(16_384, 16, "auto"), chunk_of(16_384, 16, "off")
    (0, 0)
    """
    if cascade != "on":
        return 0
    chunk = _LEAST_CHUNK
    while chunk * _MOST_CHUNKS < max_rows:
        chunk *= 2
    return chunk if chunk % page_size == 0 and chunk <= max_rows else 0


def explained(layout: CacheLayout, cascade: Cascade) -> str:
    """Why steps attend shared prompts as they do, for people."""
    if layout.shared_chunk:
        return f"steps read {layout.shared_chunk} rows of prompts once for all that share them"
    apart = "steps attend prompts that are shared request by request"
    if cascade == "off":
        return f"{apart}: `--cascade off`"
    if cascade == "auto":
        return f"{apart}, prompts that many share once: `--cascade on` lets steps do so too"
    return f"{apart}: no chunk of {_LEAST_CHUNK} rows or more is whole pages of a context"


@dataclass(slots=True, kw_only=True)
class LevelCounts:
    """Rows of prompts that requests have attended together, and how many were read for that."""

    attended_rows: int = 0
    read_rows: int = 0


class SharedLevel:
    """The first level of one step's rows, after `update`:

    - `chunks` i32[R]: how many chunks each request has; padding has none.
    - `task_count` i32[1], `tasks` i32[T, 1 + members + pages of a chunk]: the number of the chunk,
      the rows of the batch that attend it, -1 behind the last, and its pages. Tasks of one chunk
      follow one another.
    - `version`: changes with any of these.
    """

    def __init__(
        self,
        tables: PageTables,
        rows: StepRows,
        counts: LevelCounts,
        *,
        members: int,
    ) -> None:
        layout = tables.layout
        self.chunk, self.members = layout.shared_chunk, members
        assert self.chunk % layout.page_size == 0, "a chunk has whole pages"
        self.most = most_chunks(layout)
        self.pages = self.chunk // layout.page_size
        self.chunks = np.zeros(rows.bucket, dtype=np.int32)
        self.task_count = np.zeros(1, dtype=np.int32)
        self.tasks = np.full(
            (rows.bucket * self.most, 1 + members + self.pages), -1, dtype=np.int32
        )
        self.version = 0
        self._tables, self._rows, self._counts = tables, rows, counts
        self._pages_version = -1
        self._held = np.zeros((0, 0), dtype=np.int32)
        self._attended = self._read = 0

    def update(self) -> None:
        """Brings it up to what `StepRows.prepare` has set."""
        rows = self._rows
        if self._pages_version != rows.pages_version:
            self._pages_version = rows.pages_version
            self._list()
        self._counts.attended_rows += self._attended
        self._counts.read_rows += self._read

    def _list(self) -> None:
        rows = self._rows
        chunks = self._tables.prompts[rows.keys] // self.chunk
        most = int(chunks.max())
        if not most and not self.task_count[0]:
            return
        held = rows.page_table[: rows.batch, : most * self.pages].copy()
        held[np.arange(held.shape[1]) >= (chunks * self.pages)[:, None]] = -1
        if not np.array_equal(held, self._held):
            self._held = held
            self.chunks[:] = 0
            self.chunks[: rows.batch] = chunks
            self._list_tasks(held, most)
            self.version += 1

    def _list_tasks(self, held: NDArray[np.int32], most: int) -> None:
        count = distinct = 0
        for number in range(most):
            pages = held[:, number * self.pages : (number + 1) * self.pages]
            owners: dict[bytes, list[int]] = {}
            for row in np.flatnonzero(pages[:, 0] >= 0).tolist():
                owners.setdefault(pages[row].tobytes(), []).append(row)
            distinct += len(owners)
            for rows in owners.values():
                for first in range(0, len(rows), self.members):
                    together = rows[first : first + self.members]
                    task = self.tasks[count]
                    task[0] = number
                    task[1 : 1 + self.members] = -1
                    task[1 : 1 + len(together)] = together
                    task[1 + self.members :] = pages[together[0]]
                    count += 1
        self.task_count[0] = count
        self._attended = int(self.chunks.sum()) * self.chunk
        self._read = distinct * self.chunk


def most_chunks(layout: CacheLayout) -> int:
    """Chunks that one context can have."""
    return layout.max_rows // layout.shared_chunk


def common_pages(lists: list[NDArray[np.int32]], written: NDArray[np.int64], page_size: int) -> int:
    """With how many full pages all of several requests' `lists` begin, of whose rows `written`
    i64[B] were there before."""
    shortest = int(written.min()) // page_size
    first = lists[0][:shortest]
    for pages in lists[1:]:
        different = np.flatnonzero(pages[: first.size] != first)
        first = first[: int(different[0])] if different.size else first
    return int(first.size)

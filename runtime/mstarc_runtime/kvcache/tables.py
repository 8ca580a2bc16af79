"""Which pages each context of each request holds, and how many rows are in them.

A *key* is the index of one context of one slot: `slot * len(contexts) + context`. Every operation
takes arrays of keys (none twice in one call), so a batch costs one pass of numpy.

`lengths` counts rows that are written; `positions` is where the next row stands, which differs from
it only after calls that advance by another number than the rows they write.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.kvcache.errors import ContextFull
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.pages import PageAllocator, Pages

Keys = NDArray[np.int64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSnapshot:
    """What requests hold at one moment; equal snapshots before and after mean no leak.

    Pages that an index of prompts keeps and no context uses count as free.
    """

    free_pages: int
    used_pages: int
    shared_pages: int
    rows: int
    contexts_in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """What contexts held when they were taken out: `pages` are those with rows, each once.

    `places[key]` are a context's pages as indices of `pages`, `states[key]` its length, its
    position and the rows of its prompt.
    """

    pages: Pages
    places: Mapping[int, NDArray[np.int64]]
    states: Mapping[int, tuple[int, int, int]]


class PageTables:
    """Page tables of all contexts of all slots.

    `version` changes whenever anything but a step's own append changed a table: arrays that were
    made from the tables under another version are stale.
    """

    def __init__(self, layout: CacheLayout) -> None:
        self.layout = layout
        self.allocator = PageAllocator(layout.pages)
        keys = layout.slots * len(layout.contexts)
        self.table: NDArray[np.int32] = np.full(
            (keys, layout.max_pages), layout.dummy_page, dtype=np.int32
        )
        self.page_counts: NDArray[np.int64] = np.zeros(keys, dtype=np.int64)
        # One array for both, because every step writes both.
        self.state: NDArray[np.int64] = np.zeros((2, keys), dtype=np.int64)
        self.lengths: NDArray[np.int64] = self.state[0]
        self.positions: NDArray[np.int64] = self.state[1]
        # Rows with which a context begins that may be in pages of others as well: its prompt's.
        self.prompts: NDArray[np.int64] = np.zeros(keys, dtype=np.int64)
        self.owners: NDArray[np.int64] = np.zeros(keys, dtype=np.int64)
        self.version = 0

    def keys(self, slots: NDArray[np.int64], context: int) -> Keys:
        """The keys of one context of `slots`."""
        return slots * len(self.layout.contexts) + context

    def ensure(self, keys: Keys, rows: Counts | int) -> tuple[Pages, Pages] | None:
        """Makes room for `rows` more rows of each key.

        A page that is shared and partly filled is exchanged for one of the key's own: the result
        is then (pages to copy from, pages to copy to), and the caller copies them before anyone
        writes. Raises OutOfPages or ContextFull, and then nothing was changed.
        """
        layout = self.layout
        lengths = self.lengths[keys]
        held = self.page_counts[keys]
        wanted = (lengths + rows + layout.page_size - 1) // layout.page_size
        if wanted.size and int(wanted.max()) > layout.max_pages:
            raise self._context_full(keys, lengths + rows)
        missing = np.maximum(wanted - held, 0)
        shared = self._shared_last_pages(keys, lengths)
        missing_total = int(missing.sum())
        if not missing_total and not shared.size:
            return None
        pages = self.allocator.allocate(missing_total + shared.size)
        self.version += 1
        if missing_total:
            owner = np.repeat(np.arange(keys.size), missing)
            nth = np.arange(missing_total) - np.repeat(np.cumsum(missing) - missing, missing)
            self.table[keys[owner], held[owner] + nth] = pages[:missing_total]
            self.page_counts[keys] = held + missing
        if not shared.size:
            return None
        column = lengths[shared] // layout.page_size
        sources = self.table[keys[shared], column].copy()
        targets = pages[missing_total:]
        self.table[keys[shared], column] = targets
        # One at a time: two keys of one call may share one page.
        for index in range(sources.size):
            self.allocator.release(sources[index : index + 1])
        return sources, targets

    def advance(self, keys: Keys, rows: Counts | int, span: Counts | int | None = None) -> None:
        """Counts `rows` written rows, and moves positions by `span` (as many, if None)."""
        self.version += 1
        self.lengths[keys] += rows
        self.positions[keys] += rows if span is None else span

    def release(self, keys: Keys) -> None:
        """Empties contexts and gives their pages back. Empty ones may be among them."""
        self.version += 1
        # A request with an array of contexts has hundreds that it never filled.
        for key in keys[self.page_counts[keys] > 0].tolist():
            count = int(self.page_counts[key])
            self.allocator.release(self.table[key, :count].copy())
            self.table[key, :count] = self.layout.dummy_page
        self.page_counts[keys] = 0
        self.prompts[keys] = 0
        self.state[:, keys] = 0

    def fork(self, source: int, target: int) -> None:
        """Makes the context at key `target` hold what `source` holds, on the same pages."""
        assert source != target, "a context can't be forked over itself"
        self.release(np.array([target], dtype=np.int64))
        # Only pages with rows in them: one that lies ready would be written by both.
        count = -(-int(self.lengths[source]) // self.layout.page_size)
        pages = self.table[source, :count]
        self.allocator.retain(pages)
        self.table[target, :count] = pages
        self.page_counts[target] = count
        self.state[:, target] = self.state[:, source]
        self.prompts[target] = self.prompts[source]

    def adopt(self, key: int, pages: Pages) -> None:
        """Makes an empty context hold full pages of others, which it only reads."""
        assert not self.page_counts[key], f"context {key} holds pages already"
        self.version += 1
        self.allocator.retain(pages)
        self.table[key, : pages.size] = pages
        self.page_counts[key] = pages.size
        self.state[:, key] = pages.size * self.layout.page_size

    def held_by(self, keys: Keys) -> TakenOut:
        """What `put_back` needs to make contexts hold again what they hold now."""
        size = self.layout.page_size
        used = {key: -(-int(self.lengths[key]) // size) for key in keys.tolist()}
        listed = [self.table[key, :count] for key, count in used.items()]
        pages, inverse = np.unique(np.concatenate(listed), return_inverse=True)
        ends = np.cumsum(list(used.values()))[:-1]
        places = np.split(inverse.astype(np.int64), ends)
        return TakenOut(
            pages=pages.astype(np.int32),
            places={key: place for key, place in zip(used, places, strict=True) if place.size},
            states={
                key: (int(self.lengths[key]), int(self.positions[key]), int(self.prompts[key]))
                for key in used
            },
        )

    def put_back(self, taken: TakenOut) -> Pages:
        """Makes contexts hold what they held, on other pages: those in place of `taken.pages`.

        Contexts of `taken` are empty. Raises OutOfPages, and then nothing was changed.
        """
        wanted = np.unique(np.concatenate([np.zeros(0, np.int64), *taken.places.values()]))
        given = self.allocator.allocate(wanted.size)
        self.version += 1
        pages = np.full(taken.pages.size, self.layout.dummy_page, dtype=np.int32)
        pages[wanted] = given
        referenced = np.zeros(taken.pages.size, dtype=bool)
        for key, place in taken.places.items():
            assert not self.page_counts[key], f"context {key} holds pages where others come back"
            again = place[referenced[place]]
            self.allocator.retain(pages[again])
            referenced[place] = True
            self.table[key, : place.size] = pages[place]
            self.page_counts[key] = place.size
            self.lengths[key], self.positions[key], self.prompts[key] = taken.states[key]
        return pages

    def snapshot(self) -> CacheSnapshot:
        """Counts of everything that is held."""
        held = self.allocator.held_count
        return CacheSnapshot(
            free_pages=self.layout.pages - held,
            used_pages=held,
            shared_pages=self.allocator.shared_count,
            rows=int(self.lengths.sum()),
            contexts_in_use=int(np.count_nonzero(self.page_counts)),
        )

    def _shared_last_pages(self, keys: Keys, lengths: Counts) -> NDArray[np.int64]:
        """Indices of keys whose next row falls on a page that another context holds too."""
        column = lengths // self.layout.page_size
        inside = (column < self.page_counts[keys]).nonzero()[0]
        return inside[self.allocator.is_shared(self.table[keys[inside], column[inside]])]

    def _context_full(self, keys: Keys, rows: Counts) -> ContextFull:
        worst = int(np.argmax(rows))
        slot, context = divmod(int(keys[worst]), len(self.layout.contexts))
        return ContextFull(
            slot=slot,
            context=self.layout.contexts[context],
            rows=int(rows[worst]),
            limit=self.layout.max_pages * self.layout.page_size,
        )

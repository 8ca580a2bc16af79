"""The tensors of one node's cache, beside their tables: what an engine makes for each node.

`keys` and `values` are [layers, pages + 1, page_size, kv_heads, head_dim]. The last page belongs to
padded rows: they write there and read from there, so that padding touches nobody.

Who owns what: a request's contexts own their pages from `ensure` on until `release`; a page that a
fork shares belongs to all its contexts until each has released it or written its own copy. Contexts
that are set aside own none until they are brought back.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.kvcache.aside import Aside, bring_back, set_aside
from mstarc_runtime.kvcache.cross import CrossContext
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.levels import LevelCounts
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows
from mstarc_runtime.kvcache.tables import CacheSnapshot, Counts, Keys, PageTables

Slots = NDArray[np.int64]


class KVCache:
    """Pages, tables and cross contexts of one node on one rank."""

    def __init__(self, layout: CacheLayout, *, dtype: torch.dtype, device: torch.device) -> None:
        self.layout = layout
        self.dtype = dtype
        self.device = device
        self.tables = PageTables(layout)
        self.levels = LevelCounts()
        shape = (
            layout.layers,
            layout.pages + 1,
            layout.page_size,
            layout.kv_heads,
            layout.head_dim,
        )
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        rows = (layout.layers, -1, layout.kv_heads, layout.head_dim)
        # The same memory as rows: row number = page * page_size + offset in the page.
        self.key_rows = self.keys.view(rows)
        self.value_rows = self.values.view(rows)
        self.cross = {
            name: CrossContext(layout, rows=count, dtype=dtype, device=device)
            for name, count in layout.cross.items()
        }
        # Slots whose contexts are in host memory.
        self.aside: dict[int, Aside] = {}
        self._contexts = {name: index for index, name in enumerate(layout.contexts)}
        self._step_rows: dict[tuple[int, str, bool, int], StepRows] = {}

    def context_index(self, context: str) -> int:
        return self._contexts[context]

    def key(self, slot: int, context: str) -> int:
        return slot * len(self.layout.contexts) + self._contexts[context]

    def length(self, slot: int, context: str) -> int:
        """Rows that are written in a context of a request."""
        return int(self.tables.lengths[self.key(slot, context)])

    def ensure(self, keys: Keys, rows: Counts | int) -> None:
        """Makes room for `rows` more rows of each key that nobody else reads.

        Raises OutOfPages or ContextFull, and then nothing was changed.
        """
        copies = self.tables.ensure(keys, rows)
        if copies is None:
            return
        sources, targets = (
            torch.from_numpy(pages.astype(np.int64)).to(self.device) for pages in copies
        )
        self.keys.index_copy_(1, targets, self.keys.index_select(1, sources))
        self.values.index_copy_(1, targets, self.values.index_select(1, sources))

    def advance(self, keys: Keys, rows: Counts | int, span: Counts | int | None = None) -> None:
        """Counts written rows; positions move by `span`, or by as many."""
        self.tables.advance(keys, rows, span)

    def release(self, slot: int, context: str) -> None:
        """Empties one context of a request. A cross context may then be written again."""
        if context in self.cross:
            self.cross[context].release(slot)
            return
        if slot in self.aside:
            self.aside[slot].drop(self.key(slot, context))
        self.tables.release(np.array([self.key(slot, context)], dtype=np.int64))

    def release_slot(self, slot: int) -> None:
        """Gives back everything that a request holds. Harmless if it holds nothing."""
        count = len(self.layout.contexts)
        self.aside.pop(slot, None)
        self.tables.release(np.arange(slot * count, (slot + 1) * count, dtype=np.int64))
        for cross in self.cross.values():
            cross.release(slot)

    def fork(self, slot: int, source: str, target: str) -> None:
        """Makes `target` hold what `source` holds, copy-on-write; what it held is freed."""
        if source == target:
            return
        self.tables.fork(self.key(slot, source), self.key(slot, target))

    def set_aside(self, slot: int) -> None:
        """Moves a slot's pages to host memory. Until they are back it may not be stepped."""
        assert slot not in self.aside, f"the pages of slot {slot} are in host memory already"
        self.aside[slot] = set_aside(self.tables, slot, self.keys, self.values)

    def bring_back(self, slot: int) -> None:
        """Undoes `set_aside`. Raises OutOfPages, and then nothing was changed."""
        bring_back(self.tables, self.aside[slot], self.keys, self.values)
        del self.aside[slot]

    def holders(self) -> list[int]:
        """The slots of which any context has pages."""
        pages = self.tables.page_counts.reshape(self.layout.slots, -1).sum(axis=1)
        slots: list[int] = pages.nonzero()[0].tolist()
        return slots

    def holds(self, slot: int, context: str) -> bool:
        """Whether a context of a request has rows."""
        if context in self.cross:
            return self.cross[context].holds(slot)
        return self.length(slot, context) > 0 or self._is_aside(slot, context)

    def position(self, slot: int, context: str) -> int:
        """Where the next row of a context stands."""
        if context in self.cross:
            return 0
        key = self.key(slot, context)
        if self._is_aside(slot, context):
            return self.aside[slot].position(key)
        return int(self.tables.positions[key])

    def rows_of(self, slot: int, context: str) -> Tensor:
        """A copy of what is written in a context: [2, layers, rows, kv_heads, head_dim]."""
        if context in self.cross:
            return self.cross[context].rows_of(slot)
        if self._is_aside(slot, context):
            return self.aside[slot].rows_of(self.key(slot, context))
        index = self._row_index(slot, context)
        return torch.stack(
            [self.key_rows.index_select(1, index), self.value_rows.index_select(1, index)]
        )

    def replace(self, slot: int, context: str, rows: Tensor, position: int) -> None:
        """Makes `rows` (as `rows_of` gives them) the content of a context.

        Raises OutOfPages or ContextFull, and then the context is empty.
        """
        self.release(slot, context)
        rows = rows.to(self.device)
        if context in self.cross:
            self.cross[context].fill(slot, rows)
            return
        count = rows.shape[2]
        keys = np.array([self.key(slot, context)], dtype=np.int64)
        self.ensure(keys, count)
        self.advance(keys, count, position)
        index = self._row_index(slot, context)
        self.key_rows.index_copy_(1, index, rows[0])
        self.value_rows.index_copy_(1, index, rows[1])

    def _is_aside(self, slot: int, context: str) -> bool:
        return slot in self.aside and self.aside[slot].length(self.key(slot, context)) > 0

    def _row_index(self, slot: int, context: str) -> Tensor:
        """Where the rows of a context are in the pool, i64[rows]."""
        key, size = self.key(slot, context), self.layout.page_size
        within = np.arange(int(self.tables.lengths[key]))
        pages = self.tables.table[key, within // size].astype(np.int64)
        return torch.from_numpy(pages * size + within % size).to(self.device)

    def snapshot(self) -> CacheSnapshot:
        return self.tables.snapshot()

    def step_rows(
        self, bucket: int, context: str, *, keep: bool = True, ordinal: int = 0
    ) -> StepRows:
        """The arrays of one-row calls on `context` at one padded size, made at first use.

        Calls that follow one another in a step have arrays of their own each, by `ordinal`.
        """
        wanted = (bucket, context, keep, ordinal)
        rows = self._step_rows.get(wanted)
        if rows is None:
            rows = StepRows(
                self,
                bucket=bucket,
                context=self._contexts[context],
                keep=keep,
                owner=len(self._step_rows) + 1,
            )
            self._step_rows[wanted] = rows
        return rows

    def fixed_rows(self, bucket: int, context: str, *, each: int, keep: bool) -> FixedRows:
        """New arrays of calls of `each` rows a request on `context` at one padded size."""
        return FixedRows(self, bucket=bucket, context=self._contexts[context], each=each, keep=keep)

    def packed_rows(
        self,
        slots: Slots,
        counts: Counts,
        context: str = "main",
        *,
        keys: Keys | None = None,
        keep: bool = True,
        span: Counts | int | None = None,
    ) -> PackedRows:
        """The arrays of one call of `counts[i]` rows of `slots[i]`, which it makes room for.

        They stand in `context`, or, where they are given, at `keys[i]`.
        With `keep` the rows are counted as written. Raises OutOfPages or ContextFull, and then
        nothing was changed.
        """
        if keys is None:
            keys = self.tables.keys(slots, self._contexts[context])
        self.ensure(keys, counts)
        return PackedRows.build(self.tables, slots, keys, counts, keep=keep, span=span)

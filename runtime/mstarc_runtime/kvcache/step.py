"""Arrays for calls of one row a request, kept up to date from step to step.

The same requests usually step again and again. So the arrays stay as they are while the batch does
(the same `slots` array, by identity) and nobody else has touched its tables, and a step only adds
one to them. A page is taken when a row crosses into it; everything is read anew from the tables
when the batch changes or another call has come between.

Rows beyond the batch, up to the bucket, are padding: they own the dummy page, one row long.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mstarc_runtime.kvcache.cache import KVCache

# Rows of the int64 block; the first two are written back to the tables as they are.
_LENGTH, _NEXT, _POSITION, _WRITE = range(4)
# So many rows are begun one by one: an array operation costs as much as a few of them.
_FEW = 8


class StepRows:
    """Where the next row of each request of a batch goes, and what it attends.

    After `prepare`, for a bucket of R rows:

    - `positions` i64[R]: position of the row.
    - `write_rows` i64[R]: row of the pool that it is written to.
    - `kv_lengths` i32[R]: rows that it attends, itself included.
    - `last_page_lengths` i32[R], `write_offsets` i32[R]: rows in the last page; index of the new
      row in its context.
    - `page_counts` i64[R], `page_table` i32[R, max_pages]: pages that hold the attended rows;
      beyond them the table names pages of anyone.
    - `slots` i64[R]: slots, padding being `layout.slots`.
    - `pages_version`, `batch_version`: change when pages, or slots, do.

    `block` u8[44 R] is the memory of the first five, to be copied to a device at once: `block64`
    i64[4, R], then `block32` i32[3, R]. block64[2] is `positions`, block64[3] `write_rows`; block32
    is `kv_lengths`, `last_page_lengths`, `write_offsets`.
    """

    def __init__(
        self, cache: "KVCache", *, bucket: int, context: int, keep: bool, owner: int
    ) -> None:
        layout = cache.layout
        self._cache = cache
        self._tables = cache.tables
        self._context = context
        self._keep = keep
        self._owner = owner
        self.bucket = bucket
        self.batch = 0
        self._page_size = layout.page_size
        wide = 4 * 8 * bucket
        self.block = np.zeros(wide + 3 * 4 * bucket, dtype=np.uint8)
        self.block64 = self.block[:wide].view(np.int64).reshape(4, bucket)
        self.block32 = self.block[wide:].view(np.int32).reshape(3, bucket)
        self._add64 = np.zeros(bucket, dtype=np.int64)
        self._add32 = np.zeros(bucket, dtype=np.int32)
        self.positions = self.block64[_POSITION]
        self.write_rows = self.block64[_WRITE]
        self.kv_lengths = self.block32[0]
        self.last_page_lengths = self.block32[1]
        self.write_offsets = self.block32[2]
        self.page_table = np.full((bucket, layout.max_pages), layout.dummy_page, dtype=np.int32)
        self.page_counts = np.ones(bucket, dtype=np.int64)
        self.slots = np.full(bucket, layout.slots, dtype=np.int64)
        self.pages_version = 0
        self.batch_version = 0
        self._given: NDArray[np.int64] | None = None
        self._version = -1
        self._room = 0
        # Whether pages lie ready behind those that the next row is in.
        self._is_ahead = False
        self._keys = np.zeros(0, dtype=np.int64)
        self._key_list: list[int] = []
        self._written = self.block64[:2, :0]
        self._listed_version = -1
        self._begun = np.zeros(0, dtype=np.int64)
        self._indptr = np.zeros(bucket + 1, dtype=np.int32)
        self.page_indices = np.zeros(bucket * layout.max_pages, dtype=np.int32)

    def prepare(self, slots: NDArray[np.int64], passes: int = 1) -> None:
        """Sets the arrays for one more row of each of `slots`, and counts it as written.

        With several `passes` there is room for a row in each; once the arrays were used, `skip`
        counts the others. `slots` must not be changed in place afterwards: it stands for its
        batch. Raises OutOfPages or ContextFull, and then neither the tables nor the arrays have
        changed.
        """
        if slots is not self._given or self._tables.version != self._version or not self._keep:
            self._build(slots, passes)
        elif self._room >= passes:
            self._room -= 1
            self._add()
        elif passes > 1 or self._is_ahead:
            self._build(slots, passes)
        else:
            self._cross()

    def is_of(self, slots: NDArray[np.int64]) -> bool:
        """Whether the arrays are those of this very batch."""
        return self._given is slots

    def skip(self, rows: int) -> None:
        """Counts so many more rows of each as written; the device has moved on by itself."""
        np.add(self.block64, self._add64 * rows, out=self.block64)
        np.add(self.block32, self._add32 * rows, out=self.block32)
        self._tables.state[:, self._keys] = self._written
        if self._room >= rows:
            self._room -= rows
            return
        offsets = self.write_offsets[: self.batch]
        within = offsets % self._page_size
        pages = self.page_table[np.arange(self.batch), offsets // self._page_size]
        self.write_rows[: self.batch] = pages.astype(np.int64) * self._page_size + within
        self.last_page_lengths[: self.batch] = within + 1
        self._set_room()

    @property
    def keys(self) -> NDArray[np.int64]:
        """i64[batch]: the contexts' keys."""
        return self._keys

    def page_lists(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(`indptr` i32[R + 1], `indices` i32[indptr[R]]): the page table as one list.

        Both keep their memory from call to call; `indices` is the beginning of `page_indices`.
        """
        if self._listed_version != self.pages_version:
            if self._listed_version + 1 != self.pages_version or not 0 < self._begun.size <= 8:
                self._list_pages()
            else:
                self._insert_begun()
            self._listed_version = self.pages_version
        return self._indptr, self.page_indices[: self._indptr[-1]]

    def _list_pages(self) -> None:
        np.cumsum(self.page_counts, out=self._indptr[1:], dtype=np.int32)
        width = int(self.page_counts.max())
        used = np.arange(width) < self.page_counts[:, None]
        self.page_indices[: self._indptr[-1]] = self.page_table[:, :width][used]

    def _insert_begun(self) -> None:
        """Puts the pages that rows have just begun behind those rows' others: a few moves."""
        indptr, indices = self._indptr, self.page_indices
        rows = self._begun.tolist()
        end = int(indptr[-1])
        for left, row in zip(range(len(rows), 0, -1), reversed(rows), strict=True):
            start = int(indptr[row + 1])
            indices[start + left : end + left] = indices[start:end]
            indices[start + left - 1] = self.page_table[row, self.page_counts[row] - 1]
            end = start
        for row in rows:
            indptr[row + 1 :] += 1

    def _add(self) -> None:
        np.add(self.block64, self._add64, out=self.block64)
        np.add(self.block32, self._add32, out=self.block32)
        self._tables.state[:, self._keys] = self._written

    def _cross(self) -> None:
        """A step in which at least one row begins a page."""
        rows = (self.last_page_lengths[: self.batch] == self._page_size).nonzero()[0]
        if not self._can_begin(rows):
            # A page lies ready, or the request is full: `ensure` knows what to do.
            self._build(self._given_slots(), 1)
            return
        pages = self._tables.allocator.allocate(rows.size)
        self._add()
        if rows.size <= _FEW:
            for row, page in zip(rows.tolist(), pages.tolist(), strict=True):
                self._begin_page(row, page)
        else:
            self._begin_pages(rows, pages)
        self._begun = rows
        self._set_room()
        self.pages_version += 1

    def _can_begin(self, rows: NDArray[np.int64]) -> bool:
        """Whether each of `rows` may have a page behind its last one, and has none there yet."""
        tables, counts = self._tables, self.page_counts
        if rows.size <= _FEW:
            held, keys, most = tables.page_counts, self._key_list, tables.layout.max_pages
            return all(held[keys[row]] == counts[row] < most for row in rows.tolist())
        column = counts[rows]
        is_held = tables.page_counts[self._keys[rows]] > column
        return not is_held.any() and int(column.max()) < tables.layout.max_pages

    def _begin_page(self, row: int, page: int) -> None:
        tables, key, column = self._tables, self._key_list[row], int(self.page_counts[row])
        tables.table[key, column] = self.page_table[row, column] = page
        tables.page_counts[key] = self.page_counts[row] = column + 1
        self.last_page_lengths[row] = 1
        self.write_rows[row] = page * self._page_size

    def _begin_pages(self, rows: NDArray[np.int64], pages: NDArray[np.int32]) -> None:
        tables, keys, column = self._tables, self._keys[rows], self.page_counts[rows]
        tables.table[keys, column] = self.page_table[rows, column] = pages
        tables.page_counts[keys] = self.page_counts[rows] = column + 1
        self.last_page_lengths[rows] = 1
        self.write_rows[rows] = pages.astype(np.int64) * self._page_size

    def _build(self, slots: NDArray[np.int64], passes: int) -> None:
        """Reads everything from the tables."""
        tables, batch, size = self._tables, slots.size, self._page_size
        assert 1 <= batch <= self.bucket, f"{batch} rows in a bucket of {self.bucket}"
        keys = tables.keys(slots, self._context)
        self._cache.ensure(keys, passes)
        self._claim(keys)
        if slots is not self._given:
            self.slots[:batch] = slots
            self.slots[batch:] = tables.layout.slots
            self.batch_version += 1
        lengths = tables.lengths[keys]
        self._add64[:] = self._add32[:] = np.arange(self.bucket) < batch
        self.block64[:, batch:] = 0
        self.block64[_WRITE, batch:] = tables.layout.dummy_page * size
        self.block64[_LENGTH, :batch] = lengths + 1
        self.block64[_NEXT, :batch] = tables.positions[keys] + 1
        self.positions[:batch] = tables.positions[keys]
        offsets = lengths % size
        pages = tables.table[keys, lengths // size]
        self.write_rows[:batch] = pages.astype(np.int64) * size + offsets
        self.kv_lengths[:batch] = lengths + 1
        self.last_page_lengths[:batch] = offsets + 1
        self.write_offsets[:batch] = lengths
        self.kv_lengths[batch:] = self.last_page_lengths[batch:] = 1
        self.write_offsets[batch:] = 0
        # Pages of these passes only: a context may hold one that lies ready.
        self._is_ahead = passes > 1
        self.page_counts[:batch] = (lengths + passes - 1) // size + 1
        self.page_counts[batch:] = 1
        width = int(self.page_counts.max())
        self.page_table[:batch, :width] = tables.table[keys, :width]
        self.page_table[batch:, :width] = tables.layout.dummy_page
        self._begun = self._begun[:0]
        self.pages_version += 1
        self._given, self._keys, self.batch = slots, keys, batch
        self._key_list = keys.tolist()
        self._written = self.block64[:2, :batch]
        if self._keep:
            tables.state[:, keys] = self._written
        self._set_room()
        self._version = tables.version

    def _claim(self, keys: NDArray[np.int64]) -> None:
        """Makes the arrays of whoever stepped these keys before stale."""
        owners = self._tables.owners[keys]
        if ((owners != 0) & (owners != self._owner)).any():
            self._tables.version += 1
        self._tables.owners[keys] = self._owner

    def _set_room(self) -> None:
        """Steps until the first row has filled its page."""
        self._room = self._page_size - int(np.maximum.reduce(self.last_page_lengths[: self.batch]))

    def _given_slots(self) -> NDArray[np.int64]:
        assert self._given is not None
        return self._given

"""Arrays for calls of a number of rows a request that the plan knows: many, and always as many.

They keep their addresses, as those of one-row calls do, so that a region which was captured with
them can be replayed: where each row stands follows on the device from where a request's first one
does. They stay as they are while nothing has changed: a call that attends rows and keeps none finds
the same pages pass after pass.

Requests beyond the batch, up to the bucket, are padding: they own the dummy page. So are rows of a
request beyond those that it has, where the number is what prompts of several lengths are padded to:
they are written to the dummy page, and nobody sees them.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mstarc_runtime.kvcache.cache import KVCache


class FixedRows:
    """Where `each` further rows of each request of a batch go, and what they attend.

    After `prepare`, for a bucket of R requests:

    - `starts` i64[R]: position of a request's first row; those behind it follow.
    - `kv_lengths` i32[R]: rows that it attends, its own included.
    - `firsts` i32[R]: how many of them were there before; the others are its own.
    - `page_table` i32[R, max_pages]: the pages that hold them.
    - `slots` i64[R]: slots, padding being `layout.slots`.
    - `are_padded`: whether any request had fewer than `each`, ever.
    - `version`, `pages_version`, `batch_version`: change when lengths, pages or slots do.
    """

    def __init__(
        self, cache: "KVCache", *, bucket: int, context: int, each: int, keep: bool
    ) -> None:
        layout = cache.layout
        self._cache = cache
        self._context = context
        self.keep = keep
        self.bucket = bucket
        self.each = each
        self.batch = 0
        self.starts = np.zeros(bucket, dtype=np.int64)
        self.kv_lengths = np.full(bucket, each, dtype=np.int32)
        self.firsts = np.zeros(bucket, dtype=np.int32)
        self.page_table = np.full((bucket, layout.max_pages), layout.dummy_page, dtype=np.int32)
        self.slots = np.full(bucket, layout.slots, dtype=np.int64)
        self.width = -(-each // layout.page_size)
        self.version = 0
        self.pages_version = 0
        self.batch_version = 0
        self.are_padded = False
        self._given: NDArray[np.int64] | None = None
        self._seen = -1

    @property
    def padding_slot(self) -> int:
        return self._cache.layout.slots

    def prepare(
        self,
        slots: NDArray[np.int64],
        passes: int = 1,
        counts: NDArray[np.int64] | None = None,
        span: NDArray[np.int64] | int | None = None,
    ) -> None:
        """Sets the arrays for the next rows of each of `slots`; they are counted if they stay.

        There is room for so many `passes`, between which the device moves on by itself; or a
        request has `counts` i64[n] rows of the `each`. Positions move by `span`, or by the rows.
        `slots` stands for its batch by identity.
        Raises OutOfPages or ContextFull, and then nothing has changed.
        """
        calls = passes if self.keep else 1
        own = self.each if counts is None else counts
        self.are_padded |= counts is not None
        tables = self._cache.tables
        if not self.keep and slots is self._given and tables.version == self._seen:
            return
        assert 1 <= slots.size <= self.bucket, f"{slots.size} requests in a bucket of {self.bucket}"
        keys = tables.keys(slots, self._context)
        self._cache.ensure(keys, own * calls)
        if slots is not self._given:
            self.batch = slots.size
            self.slots[: self.batch] = slots
            self.slots[self.batch :] = tables.layout.slots
            self.batch_version += 1
            self._given = slots
        lengths = tables.lengths[keys]
        self.starts[: self.batch] = tables.positions[keys]
        self.starts[self.batch :] = 0
        self.kv_lengths[: self.batch] = lengths + own
        self.kv_lengths[self.batch :] = self.each
        self.firsts[: self.batch] = lengths
        self.firsts[self.batch :] = 0
        self.version += 1
        self._set_pages(keys, int((lengths + own * calls).max()))
        if self.keep:
            tables.advance(keys, own * calls, span)
        self._seen = tables.version

    def _set_pages(self, keys: NDArray[np.int64], most: int) -> None:
        """Names the pages of so many rows, where others were named before."""
        tables = self._cache.tables
        width = max(self.width, -(-most // tables.layout.page_size))
        pages = tables.table[keys, :width]
        is_same = np.array_equal(self.page_table[: self.batch, :width], pages)
        padding = self.page_table[self.batch :, :width]
        if is_same and (padding == tables.layout.dummy_page).all():
            return
        self.width = width
        self.page_table[: self.batch, :width] = pages
        padding[...] = tables.layout.dummy_page
        self.pages_version += 1

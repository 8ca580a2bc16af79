"""Attention of calls with as many rows a request, in plain torch: what a kernel is compared with.

Row by row (for a CPU), each request is attended alone over exactly its own rows. All at once, one
gather over the page table and one masked attention, of shapes that a CUDA graph can hold.
"""

import torch
from torch import Tensor

from mstarc_runtime.attention.dense import attend_dense
from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror


class FixedAttention:
    """The plan of one bucket."""

    def __init__(
        self,
        cache: KVCache,
        rows: FixedRows,
        mirror: FixedMirror,
        mask: Mask,
        *,
        row_by_row: bool,
    ) -> None:
        self._cache = cache
        self._rows = rows
        self._mirror = mirror
        self._mask = mask
        self._row_by_row = row_by_row
        self._each = torch.arange(rows.each, device=cache.device)

    def update(self) -> None:
        """The mirror is all that changes."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        self.append(layer, k, v)
        return self.attend_placed(layer, q, scale=scale)

    def attend_placed(self, layer: int, q: Tensor, *, scale: float) -> Tensor:
        """As `attend`, where keys and values of these rows are in the cache already."""
        queries = q.unflatten(0, (-1, self._rows.each))
        if not self._row_by_row:
            size, width = self._cache.layout.page_size, self._cache.layout.max_pages
            held = self._rows_of(torch.arange(size * width, device=q.device))
            return self._attended(layer, queries, held, slice(None), scale).flatten(0, 1)
        out = torch.zeros_like(queries)
        for request, length in enumerate(self._rows.kv_lengths[: self._rows.batch].tolist()):
            one = slice(request, request + 1)
            held = self._rows_of(torch.arange(length, device=q.device))[one]
            out[one] = self._attended(layer, queries[one], held, one, scale)
        return out.flatten(0, 1)

    def write_rows(self) -> Tensor:
        """i64[R * each]: rows of the pool that the call's rows are written to."""
        numbers = self._mirror.firsts[:, None] + self._each
        layout = self._cache.layout
        dummy = layout.dummy_page * layout.page_size
        own = numbers < self._mirror.kv_lengths[:, None]
        # A padding row's number may lie beyond the table.
        at = self._at(numbers.clamp(max=layout.page_size * layout.max_pages - 1))
        return torch.where(own, at, dummy).flatten()

    def append(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Writes keys and values of these rows into the cache."""
        rows = self.write_rows()
        self._cache.key_rows[layer].index_copy_(0, rows, k)
        self._cache.value_rows[layer].index_copy_(0, rows, v)

    def _rows_of(self, numbers: Tensor) -> Tensor:
        """Rows of the pool, i64[R, n], of each request's rows `numbers` i64[n]."""
        return self._at(numbers.expand(self._rows.bucket, -1))

    def _at(self, numbers: Tensor) -> Tensor:
        size = self._cache.layout.page_size
        pages = self._mirror.pages.long().gather(1, numbers // size)
        return pages * size + numbers % size

    def _attended(self, layer: int, q: Tensor, held: Tensor, one: slice, scale: float) -> Tensor:
        """`q` [B, T, H, D] of those requests, over what is there of rows `held` i64[B, S]."""
        lengths, firsts = self._mirror.kv_lengths[one], self._mirror.firsts[one]
        visible = self._visible(torch.arange(held.shape[1], device=q.device), lengths, firsts)
        # Pages beyond a request's own may hold anything, and 0 * NaN is NaN.
        unseen = ~visible.any(dim=1)[:, :, None, None]
        keys = self._cache.key_rows[layer][held].masked_fill(unseen, 0)
        values = self._cache.value_rows[layer][held].masked_fill(unseen, 0)
        return attend_dense(q, keys, values, visible[:, None], scale)

    def _visible(self, numbers: Tensor, lengths: Tensor, firsts: Tensor) -> Tensor:
        """bool[B, T, S]: which rows of its context each row sees."""
        own = firsts[:, None] + self._each
        match self._mask.kind:
            case "causal":
                ends = own + 1
            case "frames":
                ends = (own // self._mask.frame_rows + 1) * self._mask.frame_rows
            case _:
                ends = lengths[:, None].expand_as(own)
        return numbers < torch.minimum(ends, lengths[:, None])[:, :, None]

"""Attention in plain torch, on any device: what other backends are compared with.

A step has two forms. Row by row (`row_by_row`, for a CPU): each request is attended alone over
exactly its own rows, so that its bits depend on no other request, and padding costs nothing. All at
once: one gather over the page table and one masked attention, of shapes that depend on the bucket
only, which a CUDA graph can capture.

Packed calls go request by request.
"""

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.attention.backend import Attention
from mstarc_runtime.attention.dense import attend_dense, attend_row
from mstarc_runtime.attention.fixed_rows import FixedAttention
from mstarc_runtime.attention.mask import Mask, visible_rows
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror, MirroredArray, PackedMirror, StepMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows


class TorchAttention:
    """The backend. `row_by_row` can't be captured."""

    def __init__(self, cache: KVCache, *, row_by_row: bool) -> None:
        self._cache = cache
        self.row_by_row = row_by_row

    def plan_step(self, rows: StepRows, mirror: StepMirror) -> Attention:
        if self.row_by_row:
            return _RowByRowStep(self._cache, rows, mirror)
        return _BatchedStep(self._cache, rows, mirror)

    def plan_packed(self, rows: PackedRows, mirror: PackedMirror, mask: Mask) -> Attention:
        return _Packed(self._cache, rows, mirror, mask)

    def plan_fixed(self, rows: FixedRows, mirror: FixedMirror, mask: Mask) -> Attention:
        return FixedAttention(self._cache, rows, mirror, mask, row_by_row=self.row_by_row)


def _append(cache: KVCache, layer: int, rows: Tensor, k: Tensor, v: Tensor) -> None:
    cache.key_rows[layer].index_copy_(0, rows, k)
    cache.value_rows[layer].index_copy_(0, rows, v)


class _RowByRowStep:
    def __init__(self, cache: KVCache, rows: StepRows, mirror: StepMirror) -> None:
        self._cache = cache
        self._rows = rows
        self._mirror = mirror
        self._pages_version = -1
        self._held: list[Tensor] = []
        self._attended: list[Tensor] = []

    def update(self) -> None:
        rows = self._rows
        if self._pages_version != rows.pages_version:
            self._pages_version = rows.pages_version
            size = self._cache.layout.page_size
            within = np.arange(size)
            self._held = [
                torch.from_numpy((pages[:, None] * size + within).reshape(-1)).to(
                    self._cache.device
                )
                for pages in (
                    rows.page_table[row, : rows.page_counts[row]].astype(np.int64)
                    for row in range(rows.batch)
                )
            ]
        lengths = rows.kv_lengths.tolist()
        self._attended = [held[: lengths[row]] for row, held in enumerate(self._held)]

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        _append(self._cache, layer, self._mirror.write_rows, k, v)
        keys, values = self._cache.key_rows[layer], self._cache.value_rows[layer]
        out = torch.zeros_like(q)
        for row, attended in enumerate(self._attended):
            out[row] = attend_row(
                q[row], keys.index_select(0, attended), values.index_select(0, attended), scale
            )
        return out


class _BatchedStep:
    def __init__(self, cache: KVCache, rows: StepRows, mirror: StepMirror) -> None:
        self._cache = cache
        self._rows = rows
        self._mirror = mirror
        self._table = MirroredArray(rows.page_table, cache.device, apart=True)
        self.pages: Tensor | None = self._table.tensor
        self._pages_version = -1
        size, width = cache.layout.page_size, cache.layout.max_pages
        self._within = torch.arange(size, device=cache.device)
        self._numbers = torch.arange(width * size, device=cache.device)

    def update(self) -> None:
        if self._pages_version != self._rows.pages_version:
            self._pages_version = self._rows.pages_version
            self._table.update()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        _append(self._cache, layer, self._mirror.write_rows, k, v)
        size = self._cache.layout.page_size
        attended = (self._table.tensor.long()[:, :, None] * size + self._within).flatten(1)
        visible = self._numbers < self._mirror.kv_lengths[:, None]
        # Pages beyond a row's own are anyone's and may hold anything, and 0 * NaN is NaN.
        unseen = ~visible[:, :, None, None]
        keys = self._cache.key_rows[layer][attended].masked_fill(unseen, 0)
        values = self._cache.value_rows[layer][attended].masked_fill(unseen, 0)
        return attend_dense(q[:, None], keys, values, visible[:, None, None], scale)[:, 0]


class _Packed:
    def __init__(self, cache: KVCache, rows: PackedRows, mirror: PackedMirror, mask: Mask) -> None:
        self._cache = cache
        self._mirror = mirror
        size = cache.layout.page_size
        self._requests: list[tuple[slice, Tensor, Tensor]] = []
        for request in range(rows.slots.size):
            pages = rows.indices[rows.indptr[request] : rows.indptr[request + 1]]
            length = int(rows.kv_lengths[request])
            held = (pages[:, None].astype(np.int64) * size + np.arange(size)).reshape(-1)[:length]
            own = slice(int(rows.row_indptr[request]), int(rows.row_indptr[request + 1]))
            visible = visible_rows(rows.row_indices[own], length, mask)
            self._requests.append(
                (
                    own,
                    torch.from_numpy(held).to(cache.device),
                    torch.from_numpy(visible).to(cache.device),
                )
            )

    def update(self) -> None:
        pass

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        _append(self._cache, layer, self._mirror.write_rows, k, v)
        keys, values = self._cache.key_rows[layer], self._cache.value_rows[layer]
        out = torch.empty_like(q)
        for own, held, visible in self._requests:
            out[own] = attend_dense(
                q[own].unsqueeze(0),
                keys.index_select(0, held).unsqueeze(0),
                values.index_select(0, held).unsqueeze(0),
                visible,
                scale,
            )[0]
        return out

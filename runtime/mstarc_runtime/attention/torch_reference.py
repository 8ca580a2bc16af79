"""Attention in plain torch, on any device: what other backends are compared with.

A step has two forms. Row by row (`row_by_row`, for a CPU): each request is attended alone over
exactly its own rows, so that its bits depend on no other request, and padding costs nothing. All at
once: one gather over the page table and one masked attention, of shapes that depend on the bucket
only, which a CUDA graph can capture.

Packed calls go request by request. With `levels` a step and a packed call attend what requests hold
together apart from the rest: what kernels that read it once are compared with.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.attention.backend import Attention
from mstarc_runtime.attention.dense import attend_dense, attend_row
from mstarc_runtime.attention.fixed_rows import FixedAttention
from mstarc_runtime.attention.levels import PackedLevels, attend_part, levels_of, put_together
from mstarc_runtime.attention.mask import Mask, visible_rows
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.levels import SharedLevel
from mstarc_runtime.kvcache.mirror import FixedMirror, MirroredArray, PackedMirror, StepMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows


class TorchAttention:
    """The backend. `row_by_row` can't be captured, and neither can `levels`."""

    def __init__(self, cache: KVCache, *, row_by_row: bool, levels: bool = False) -> None:
        self._cache = cache
        self.row_by_row = row_by_row
        self._levels = levels

    def plan_step(self, rows: StepRows, mirror: StepMirror) -> Attention:
        if self._levels:
            return _LevelStep(self._cache, rows, mirror)
        if self.row_by_row:
            return _RowByRowStep(self._cache, rows, mirror)
        return _BatchedStep(self._cache, rows, mirror)

    def plan_packed(self, rows: PackedRows, mirror: PackedMirror, mask: Mask) -> Attention:
        size = self._cache.layout.page_size
        levels = levels_of(rows, self._cache.levels, page_size=size) if self._levels else None
        return _Packed(self._cache, rows, mirror, mask, levels)

    def plan_fixed(self, rows: FixedRows, mirror: FixedMirror, mask: Mask) -> Attention:
        return FixedAttention(self._cache, rows, mirror, mask, row_by_row=self.row_by_row)


def _rows_in(
    cache: KVCache, layer: int, pages: NDArray[np.int32], first: int, count: int
) -> tuple[Tensor, Tensor]:
    """Keys and values of `count` rows from `first` on in `pages`: [count, Hkv, D] each."""
    size = cache.layout.page_size
    at = np.arange(first, first + count)
    index = torch.from_numpy(pages[at // size].astype(np.int64) * size + at % size)
    index = index.to(cache.device)
    keys, values = cache.key_rows[layer], cache.value_rows[layer]
    return keys.index_select(0, index), values.index_select(0, index)


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


class _LevelStep:
    def __init__(self, cache: KVCache, rows: StepRows, mirror: StepMirror) -> None:
        self._cache, self._rows, self._mirror = cache, rows, mirror
        self._level = SharedLevel(cache.tables, rows, cache.levels, members=rows.bucket)

    def update(self) -> None:
        self._level.update()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        _append(self._cache, layer, self._mirror.write_rows, k, v)
        rows, level = self._rows, self._level
        seen: list[list[Tensor]] = [[] for _ in range(rows.batch)]
        weights: list[list[Tensor]] = [[] for _ in range(rows.batch)]

        def attend(members: list[int], pages: NDArray[np.int32], first: int, count: int) -> None:
            keys, values = _rows_in(self._cache, layer, pages, first, count)
            made, weight = attend_part(q[members], keys, values, None, scale)
            for at, member in enumerate(members):
                seen[member].append(made[at : at + 1])
                weights[member].append(weight[at : at + 1])

        for task in level.tasks[: level.task_count[0]]:
            members = task[1 : 1 + level.members]
            attend(members[members >= 0].tolist(), task[1 + level.members :], 0, level.chunk)
        for row in range(rows.batch):
            first = int(level.chunks[row]) * level.chunk
            pages = rows.page_table[row, : rows.page_counts[row]]
            attend([row], pages, first, int(rows.kv_lengths[row]) - first)
        out = torch.zeros_like(q)
        for row in range(rows.batch):
            out[row] = put_together(seen[row], weights[row])[0]
        return out


class _Packed:
    def __init__(
        self,
        cache: KVCache,
        rows: PackedRows,
        mirror: PackedMirror,
        mask: Mask,
        levels: PackedLevels | None,
    ) -> None:
        self._cache, self._rows, self._mirror, self._mask = cache, rows, mirror, mask
        self._levels = levels

    def update(self) -> None:
        pass

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        _append(self._cache, layer, self._mirror.write_rows, k, v)
        rows, levels, size = self._rows, self._levels, self._cache.layout.page_size
        if levels is not None:
            before = levels.shared.size * size
            held = _rows_in(self._cache, layer, levels.shared, 0, before)
            shared, weight = attend_part(q, *held, None, scale)
        out = torch.empty_like(q)
        for request in range(rows.slots.size):
            own = slice(int(rows.row_indptr[request]), int(rows.row_indptr[request + 1]))
            length = int(rows.kv_lengths[request])
            pages = rows.indices[rows.indptr[request] : rows.indptr[request + 1]]
            visible = torch.from_numpy(visible_rows(rows.row_indices[own], length, self._mask))
            visible = visible.to(q.device)
            if levels is None:
                keys, values = _rows_in(self._cache, layer, pages, 0, length)
                out[own] = attend_dense(
                    q[own].unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0), visible, scale
                )[0]
                continue
            pages = levels.indices[levels.indptr[request] : levels.indptr[request + 1]]
            held = _rows_in(self._cache, layer, pages, 0, length - before)
            seen, rest = attend_part(q[own], *held, visible[:, before:], scale)
            out[own] = put_together([shared[own], seen], [weight[own], rest]).to(q.dtype)
        return out

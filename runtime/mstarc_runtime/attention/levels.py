"""Attention in two levels: rows that requests hold in the same pages, and everyone's own.

Both are attended apart, and what was seen is put together by how much it weighs: the same
attention, but for the order of additions. A step's first level are chunks of prompts
(`kvcache.levels`), of a packed call the pages with which all its requests begin.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.kvcache.levels import LevelCounts, SharedLevel, common_pages
from mstarc_runtime.kvcache.mirror import MirroredArray
from mstarc_runtime.kvcache.packed import PackedRows

LEAST_SAVED_ROWS = 16_384
"""Rows that a packed call must not read a second time for two launches more to be worth it: on an
H200 saving 7,168 made it 1.7 times as long, 28,672 0.8 times (`benchmarks/cascade.py`)."""


class MirroredLevel:
    """The first level of a step as tensors that keep their addresses."""

    def __init__(self, level: SharedLevel, device: torch.device) -> None:
        self.level = level
        self._seen = -1
        self._chunks = MirroredArray(level.chunks, device)
        self._task_count = MirroredArray(level.task_count, device)
        self._tasks = MirroredArray(level.tasks, device)
        self.chunks = self._chunks.tensor
        self.task_count = self._task_count.tensor
        self.tasks = self._tasks.tensor

    def update(self) -> None:
        """Brings them up to what `StepRows.prepare` has set."""
        self.level.update()
        if self._seen != self.level.version:
            self._seen = self.level.version
            self._chunks.update()
            self._task_count.update()
            self._tasks.update(max(1, int(self.level.task_count[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedLevels:
    """A packed call's pages by level: `shared` i32[n] of all requests, and of each those behind
    them, `indices` i32[indptr[B]] cut by `indptr` i32[B + 1]. A request's last page is the same."""

    shared: NDArray[np.int32]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]


def levels_of(rows: PackedRows, counts: LevelCounts, *, page_size: int) -> PackedLevels | None:
    """The levels of a packed call; None where they would save too little."""
    batch = rows.slots.size
    if batch < 2:
        return None  # nobody to share with
    own = [rows.indices[rows.indptr[i] : rows.indptr[i + 1]] for i in range(batch)]
    shared = common_pages(own, rows.row_indices[rows.row_indptr[:-1]], page_size)
    if shared * page_size * (batch - 1) < LEAST_SAVED_ROWS:
        return None
    counts.attended_rows += shared * page_size * batch
    counts.read_rows += shared * page_size
    return PackedLevels(
        shared=own[0][:shared],
        indptr=rows.indptr - np.arange(batch + 1, dtype=np.int32) * shared,
        indices=np.concatenate([pages[shared:] for pages in own]),
    )


def attend_part(
    q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """`q` [T, Hq, D] over `k`, `v` [S, Hkv, D] of which `visible` bool[T, S], in float32: what is
    seen [T, Hq, D], and the logarithm of what it weighs [T, Hq]."""
    group = q.shape[1] // k.shape[1]
    keys, values = (part.float().repeat_interleave(group, 1) for part in (k, v))
    scores = torch.einsum("thd,shd->ths", q.float(), keys) * scale
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], float("-inf"))
    return torch.einsum("ths,shd->thd", scores.softmax(-1), values), scores.logsumexp(-1)


def put_together(seen: list[Tensor], weights: list[Tensor]) -> Tensor:
    """What parts [T, Hq, D] with logarithms of weights [T, Hq] are together."""
    shares = torch.stack(weights).softmax(0)
    return (torch.stack(seen) * shares[..., None]).sum(0)

"""Calls of many rows a request, made for one call: `PackedContext`, and `ArrayContext` over several
contexts of each request."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.mask import CAUSAL, Mask
from mstarc_runtime.engine.context import CacheContext, Slots
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.mirror import PackedMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.layers.sampler import SamplerState


class PackedContext(CacheContext):
    """One call of `counts[i]` rows of request `slots[i]`, which are counted as written.

    They stand in `context`, or, where they are given, at `keys[i]`.

    `span`: by how much positions move instead of by the rows. Raises OutOfPages or ContextFull
    before anything was changed.
    """

    def __init__(
        self,
        *,
        cache: KVCache,
        backend: AttentionBackend,
        samplers: Mapping[str, SamplerState],
        slots: Slots,
        counts: NDArray[np.int64],
        context: str = "main",
        keys: NDArray[np.int64] | None = None,
        mask: Mask = CAUSAL,
        keep: bool = True,
        span: int | NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(cache=cache, backend=backend, samplers=samplers, batch=slots.size)
        # Whether the rows are those of prompts that go on after them: nothing is drawn then.
        self.is_partial = False
        # What samplers were told of the rows: an id each.
        self.observed: list[tuple[str, Tensor]] = []
        self.rows: PackedRows = cache.packed_rows(
            slots, counts, context, keys=keys, keep=keep, span=span
        )
        mirror = PackedMirror(self.rows, cache.device)
        self._attention = backend.plan_packed(self.rows, mirror, mask)
        self.positions = mirror.positions
        self.last_rows = mirror.last_rows
        self._slots = mirror.slots
        self._row_slots = mirror.row_slots

    @property
    def row_indptr(self) -> NDArray[np.int32]:
        """i32[B + 1], which cuts the rows by request."""
        return self.rows.row_indptr

    def observe(self, ids: Tensor, *, sampler: str = "default") -> None:
        self.observed.append((sampler, ids))
        super().observe(ids, sampler=sampler)

    def sample(self, logits: Tensor, *, sampler: str = "default") -> Tensor:
        if self.is_partial:
            return torch.zeros(logits.shape[0], dtype=torch.int64, device=logits.device)
        return super().sample(logits, sampler=sampler)

    def _host_slots(self) -> list[int]:
        slots: list[int] = self.rows.slots.tolist()
        return slots

    def _host_row_slots(self) -> list[int]:
        slots: list[int] = self.rows.row_slots.tolist()
        return slots


class ArrayContext(PackedContext):
    """One call on `count` contexts of each request: a request for each of them."""

    def __init__(self, *, count: int, **made: Any) -> None:
        super().__init__(**made)
        self._count = count

    def sample(self, logits: Tensor, *, sampler: str = "default") -> Tensor:
        # One after another, as separate calls would: a draw counts those before it.
        state, slots, host = self._samplers[sampler], self._slots, self._host_slots()
        drawn = [
            state.sample(
                logits[at :: self._count], slots[at :: self._count], host[at :: self._count]
            )
            for at in range(self._count)
        ]
        return torch.stack(drawn, dim=1).reshape(-1)

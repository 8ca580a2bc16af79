"""A ring in the memory of another device, which this rank's steps write themselves.

Items of a step → their places there. Places are counted on the device, as a ring of the own rank
counts them, so that a captured step can send. The other rank is told how many items are there, and
gets none through the host.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.streaming.counts import Slots

RESERVE = 256
"""Places that are kept free: a reader makes room for what its device may not have read yet."""
_LEAST = 4 * RESERVE


class Store(Protocol):
    """Writes into the other rank's memory."""

    def __call__(self, slots: Tensor, positions: Tensor, items: Tensor) -> None:
        """`items` [B, n, *item] to `positions` i64[B, n] of `slots` i64[B]."""
        ...


def is_long_enough(capacity: int) -> bool:
    """Whether a ring of so many items can do without those of the reserve."""
    return capacity >= _LEAST


class PeerRing:
    """Where the next item of each slot goes; the last slot is padding."""

    def __init__(self, store: Store, *, capacity: int, slots: int, device: torch.device) -> None:
        self._store = store
        self._capacity = capacity
        self._device = device
        self._heads = torch.zeros(slots + 1, dtype=torch.int64, device=device)

    def append(self, batch: StepBatch, items: Tensor, where: Tensor | None) -> None:
        """`items` [B, n, *item] of a step's rows, of those that `where` bool[B] names."""
        slots, count = batch.device_slots, items.shape[1]
        heads = self._heads.index_select(0, slots)
        # A row that sends nothing writes too, to a place that nobody reads before it is sent.
        self._store(slots, (heads[:, None] + batch.steps_to(count)) % self._capacity, items)
        step = count if where is None else where.to(torch.int64) * count
        self._heads.index_copy_(0, slots, heads + step)

    def append_packed(
        self, slots: Sequence[int], firsts: Sequence[int], counts: Sequence[int], value: Tensor
    ) -> None:
        """Rows of `value` [R, *item], one slot behind the other, from numbers `firsts` on."""
        start = 0
        for slot, first, count in zip(slots, firsts, counts, strict=True):
            numbers = torch.arange(first, first + count, device=self._device)
            self._store(
                torch.full((count,), slot, dtype=torch.int64, device=self._device),
                (numbers % self._capacity)[:, None],
                value[start : start + count].unsqueeze(1),
            )
            self._heads[slot].fill_(first + count)
            start += count

    def set_head(self, slot: int, count: int) -> None:
        """The next item of a slot has the number `count`."""
        self._heads[slot].fill_(count)

    def set_heads(self, slots: Slots, counts: Slots) -> None:
        """The same for several."""
        self._heads[torch.from_numpy(slots)] = torch.from_numpy(counts).to(self._device)

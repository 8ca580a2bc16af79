"""What the steps of a loop may ask: which pass a request is in, and numbers of a table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.dtypes import torch_dtype
from mstarc_runtime.streaming.counts import LazyCounts, Slots


class LoopPasses:
    """The passes of one loop, for all slots of a rank.

    `left` counts the passes that may still begin: the bound, less one for each that has. `bound`
    names the entry of `Admission.bounds`.
    """

    def __init__(self, name: str, bound: str, *, left: LazyCounts, slots: int) -> None:
        self.name = name
        self._bound = bound
        self._left = left
        self._bounds: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)

    def admit(self, slot: int, bounds: Mapping[str, int]) -> None:
        self._bounds[slot] = bounds[self._bound]

    def number(self, slot: int) -> int:
        """The pass that the request is in, from 0."""
        return int(self._bounds[slot]) - self._left.get(slot) - 1

    def numbers(self, slots: Slots) -> NDArray[np.int64]:
        """The same for several."""
        passes: NDArray[np.int64] = self._bounds[slots] - self._left.settle()[slots] - 1
        return passes

    def count(self, batch: StepBatch) -> int:
        """The pass that the one request of a batch is in."""
        (slot,) = batch.slot_list
        return self.number(slot)

    def index(self, batch: StepBatch) -> Tensor:
        """i64[B], for a step that lists the loop."""
        return batch.pass_numbers(self.name)


class Table:
    """Numbers that admission has computed for each request: [slots + 1, capacity]."""

    def __init__(
        self, name: str, dtype: str, *, capacity: int, slots: int, device: torch.device
    ) -> None:
        self.name = name
        # A test asks about the pass behind the last one, too: what it gets there decides nothing.
        self._rows = torch.zeros((slots + 1, capacity + 1), dtype=torch_dtype(dtype), device=device)
        # What the rows begin with.
        self._held: list[list[Any]] = [[] for _ in range(slots + 1)]

    def admit(self, slot: int, options: Mapping[str, Any]) -> None:
        numbers = list(options[self.name])
        assert len(numbers) < self._rows.shape[1], f"table {self.name} has {len(numbers)} entries"
        if numbers == self._held[slot]:
            return
        self._held[slot] = numbers
        made = torch.tensor(numbers, dtype=self._rows.dtype)
        if self._rows.device.type == "cuda":
            # From memory of its own kind, else the host would wait for what the device has to do.
            made = made.pin_memory()
        self._rows[slot, : len(numbers)].copy_(made, non_blocking=True)

    def at(self, batch: StepBatch, index: Tensor | int) -> Tensor:
        """Each row's entry at `index`, one for all rows or i64[B]: [B]."""
        if isinstance(index, int):
            return self._rows[:, index].index_select(0, batch.device_slots)
        return batch.once(self.name, index, lambda at: self._rows[batch.device_slots, at])

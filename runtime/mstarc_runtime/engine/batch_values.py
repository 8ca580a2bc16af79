"""What generated code makes of numbers and options: values with a row for each row of the batch."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.engine.dtypes import torch_dtype
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.streaming.counts import Slots

if TYPE_CHECKING:
    from mstarc_runtime.engine.options import OptionTable
    from mstarc_runtime.engine.passes import LoopPasses


class BatchValues:
    """Which requests the rows of a batch belong to, and the values that need no more than that."""

    def __init__(
        self,
        bucket: int,
        *,
        padding_slot: int,
        device: torch.device,
        options: "OptionTable",
        computed: torch.dtype,
    ) -> None:
        self.bucket = bucket
        self.device = device
        self.size = 0
        self.slots: Slots = np.zeros(0, dtype=np.int64)
        self.slot_list: list[int] = []
        self.device_slots = torch.full((bucket,), padding_slot, dtype=torch.int64, device=device)
        self.packed_lengths: list[int] | None = None
        # Of values that are read in pieces, the rows of each request that this run reads, and
        # whether these are rows of prompts that go on after them.
        self.windows: dict[str, list[slice]] = {}
        self.is_partial = False
        self._options = options
        self._ranges: dict[int, Tensor] = {}
        # What this run has asked of tables and options, by what it was asked with: once is enough,
        # and is one mask to all that depends on it.
        self.entries: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}
        self._computed = computed

    def option(self, name: str) -> Tensor:
        return self.once(name, self.device_slots, lambda slots: self._options.take(name, slots))

    def once(self, name: str, by: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
        """What `read` gives of `by`, the same tensor whenever this run asks for it again."""
        known = self.entries.get((name, id(by)))
        if known is None:
            # `by` is kept with it: nothing else gets its id meanwhile.
            known = self.entries[(name, id(by))] = (by, read(by))
        return known[1]

    def chosen(self, name: str, passes: "LoopPasses | None" = None) -> Sequence[int]:
        if passes is None:
            return [int(self._options.value(slot, name)) for slot in self.slot_list]
        numbers = passes.numbers(self.slots).tolist()
        return [
            int(self._options.value(slot, name)[number])
            for slot, number in zip(self.slot_list, numbers, strict=True)
        ]

    def count(self, name: str, index: int | None = None) -> int:
        (slot,) = self.slot_list
        value = self._options.value(slot, name)
        return int(value if index is None else value[index])

    def full(self, value: int | float, dtype: str) -> Tensor:
        return torch.full((self.bucket,), value, dtype=self._type(dtype), device=self.device)

    def alike(self, value: Tensor, number: int | float, dtype: str, *, dims: int) -> Tensor:
        shape = value.shape[: value.dim() - dims]
        return torch.full(shape, number, dtype=self._type(dtype), device=self.device)

    def some(self, value: Tensor) -> Maybe:
        there = torch.ones(value.shape[0], dtype=torch.bool, device=self.device)
        return Maybe(value, there)

    def maybe(self, value: Tensor, there: Tensor) -> Maybe:
        shape = (-1,) + (1,) * (value.dim() - 1)
        return Maybe(value.masked_fill(~there.view(shape), 0), there)

    def none(self, dtype: str, dims: tuple[int, ...]) -> Maybe:
        shape = (self.bucket, *dims)
        value = torch.zeros(shape, dtype=self._type(dtype), device=self.device)
        return Maybe(value, torch.zeros(self.bucket, dtype=torch.bool, device=self.device))

    def stacked(self, constant: Tensor) -> Tensor:
        return constant.expand(self.bucket, *constant.shape)

    def packed(self, constant: Tensor) -> Tensor:
        self.packed_lengths = [constant.shape[0]] * self.size
        return constant.repeat(self.size, *(1,) * (constant.dim() - 1))

    def _type(self, dtype: str) -> torch.dtype:
        return torch_dtype(dtype, self._computed)

    def steps_to(self, count: int) -> Tensor:
        """i64[1, count]: 0 .. count - 1."""
        made = self._ranges.get(count)
        if made is None:
            made = torch.arange(count, device=self.device)[None]
            self._ranges[count] = made
        return made

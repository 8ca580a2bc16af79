"""What a request keeps between steps: registers, values and collectors, one row a slot.

The last row of everything on the device belongs to padding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.dtypes import torch_dtype
from mstarc_runtime.engine.job import Job
from mstarc_runtime.streaming.counts import LazyCounts, Slots


class Register:
    """A value of fixed shape on the device: [slots + 1, *dims]. One with fewer entries on its first
    dim is the beginning of what is kept; what is behind it says nothing."""

    def __init__(
        self, name: str, dtype: str, dims: tuple[int, ...], *, slots: int, device: torch.device
    ) -> None:
        self.name = name
        self._rows = torch.zeros((slots + 1, *dims), dtype=torch_dtype(dtype), device=device)

    def take(self, batch: StepBatch) -> Tensor:
        return self._rows.index_select(0, batch.device_slots)

    def put(self, batch: StepBatch, value: Tensor) -> None:
        if value.shape[1:] != self._rows.shape[1:]:
            self._rows[batch.device_slots, : value.shape[1]] = value.to(self._rows.dtype)
            return
        self._rows.index_copy_(0, batch.device_slots, value.to(self._rows.dtype))

    def get(self, job: Job) -> Tensor:
        return self.read(job.slot)

    def set(self, job: Job, value: Any) -> None:
        self.write(job.slot, value)

    def read(self, slot: int) -> Tensor:
        """A copy on the host."""
        return self._rows[slot].to("cpu", copy=True)

    def write(self, slot: int, value: Any) -> None:
        made = torch.as_tensor(value).to(self._rows.device, self._rows.dtype)
        if made.shape != self._rows.shape[1:]:
            self._rows[slot, : made.shape[0]] = made
            return
        self._rows[slot] = made

    def release(self, slot: int) -> None:
        """A register holds nothing that others could use: the next request sets it first."""


class Values:
    """A value of any shape, or a host object: one a slot."""

    def __init__(self, name: str, *, slots: int, device: torch.device) -> None:
        self.name = name
        self._items: list[Any] = [None] * (slots + 1)
        self._device = device

    def pack(self, batch: StepBatch) -> Tensor:
        batch.packed_from.add(self.name)
        parts = [self.tensor(slot) for slot in batch.slot_list]
        if self.name in batch.windows:
            windows = batch.windows[self.name]
            parts = [part[rows] for part, rows in zip(parts, windows, strict=True)]
        batch.packed_lengths = [part.shape[0] for part in parts]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def stack(self, batch: StepBatch) -> Tensor:
        batch.stacked_from.add(self.name)
        parts = [self.tensor(slot) for slot in batch.slot_list]
        parts += [parts[0]] * (batch.bucket - batch.size)
        return torch.stack(parts) if len(parts) > 1 else parts[0][None]

    def put(self, batch: StepBatch, value: Tensor) -> None:
        lengths = batch.packed_lengths
        if lengths is not None and sum(lengths) == value.shape[0]:
            # Of prompts in pieces, which rows of them these are.
            starts = [rows.start for rows in next(iter(batch.windows.values()), [])]
            for row, (slot, part) in enumerate(
                zip(batch.slot_list, value.split(lengths), strict=True)
            ):
                before = self._items[slot][: starts[row]] if starts and starts[row] else None
                self._items[slot] = part.clone() if before is None else torch.cat([before, part])
            return
        for row, slot in enumerate(batch.slot_list):
            self._items[slot] = value[row].clone()

    def lengths(self, batch: StepBatch, axis: int = 0) -> Sequence[int]:
        if self.name in batch.windows and not axis:
            return [rows.stop - rows.start for rows in batch.windows[self.name]]
        return [self.tensor(slot).shape[axis] for slot in batch.slot_list]

    def numbers(self, batch: StepBatch) -> Sequence[int]:
        return [int(self._items[slot]) for slot in batch.slot_list]

    def get(self, job: Job) -> Any:
        return self.read(job.slot)

    def set(self, job: Job, value: Any) -> None:
        if isinstance(value, Tensor) and self._device.type == "cuda" and not value.is_cuda:
            # Here, in the thread of host code, and not where steps are launched.
            value = value.pin_memory()
        self.write(job.slot, value)

    def read(self, slot: int) -> Any:
        item = self._items[slot]
        return item.cpu() if isinstance(item, Tensor) else item

    def write(self, slot: int, value: Any) -> None:
        self._items[slot] = value

    def tensor(self, slot: int) -> Tensor:
        """The value on the device; a host array or list is brought there once."""
        item = self._items[slot]
        if isinstance(item, Tensor) and item.device == self._device:
            return item
        made = torch.as_tensor(item)
        if self._device.type == "cuda" and made.device.type == "cpu":
            # From memory of its own kind, else the host would wait for what the device has to do.
            made = made.pin_memory()
        made = made.to(self._device, non_blocking=True)
        self._items[slot] = made
        return made

    def on_host(self, slot: int) -> NDArray[np.generic] | None:
        """The value where host code has made it and no device has it yet, or shares its memory."""
        item = self._items[slot]
        if isinstance(item, Tensor):
            return item.numpy() if item.device.type == "cpu" else None
        return np.asarray(item)

    def shape(self, slot: int) -> tuple[int, ...]:
        return tuple(self.tensor(slot).shape)

    def release(self, slot: int) -> None:
        self._items[slot] = None

    @property
    def held(self) -> int:
        return sum(item is not None for item in self._items)


class Collector:
    """One row a pass of a loop: [slots + 1, capacity, *dims], and how many there are."""

    def __init__(
        self,
        name: str,
        dtype: str,
        dims: tuple[int, ...],
        *,
        capacity: int,
        slots: int,
        device: torch.device,
    ) -> None:
        self.name = name
        self._rows = torch.zeros(
            (slots + 1, capacity, *dims), dtype=torch_dtype(dtype), device=device
        )
        self._heads = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._counts = LazyCounts(slots)
        self._capacity = capacity

    def reset(self, batch: StepBatch) -> None:
        self._heads.index_fill_(0, batch.device_slots, 0)
        batch.record_reset(self)

    def append(self, batch: StepBatch, value: Tensor, where: Tensor | None = None) -> None:
        slots = batch.device_slots
        heads = self._heads.index_select(0, slots)
        # A row that appends nothing may be full: it writes its last place over with itself.
        places = heads.clamp(max=self._capacity - 1)
        if where is None:
            self._rows.index_put_((slots, places), value)
            self._heads.index_copy_(0, slots, heads + 1)
        else:
            shape = (-1,) + (1,) * (value.dim() - 1)
            kept = torch.where(where.view(shape), value, self._rows[slots, places])
            self._rows.index_put_((slots, places), kept)
            self._heads.index_copy_(0, slots, heads + where.to(torch.int64))
        batch.record_append(self, where)

    def get(self, job: Job) -> Tensor:
        return self.read(job.slot)

    def pack(self, batch: StepBatch) -> Tensor:
        lengths = self.lengths(batch)
        batch.packed_lengths = list(lengths)
        parts = [
            self._rows[slot, :count] for slot, count in zip(batch.slot_list, lengths, strict=True)
        ]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def stack(self, batch: StepBatch) -> Tensor:
        (slot,) = batch.slot_list
        return self._rows[slot : slot + 1, : self._counts.get(slot)]

    def lengths(self, batch: StepBatch) -> Sequence[int]:
        return [self._counts.get(slot) for slot in batch.slot_list]

    def read(self, slot: int) -> Tensor:
        return self._rows[slot, : self._counts.get(slot)].to("cpu", copy=True)

    def write(self, slot: int, value: Any) -> None:
        rows = torch.as_tensor(value).to(self._rows.device, self._rows.dtype)
        self._rows[slot, : rows.shape[0]] = rows
        self._heads[slot].fill_(rows.shape[0])
        self._counts.set(slot, rows.shape[0])

    def landed_all(self, slots: Slots, count: int) -> None:
        self._counts.add(slots, count)

    def landed_reset(self, slots: Slots) -> None:
        self._counts.settle()[slots] = 0

    def restore_heads(self, slots: Slots) -> None:
        """Forgets what a failed run has appended."""
        counts = torch.from_numpy(self._counts.settle()[slots])
        self._heads[torch.from_numpy(slots)] = counts.to(self._heads.device)

    def release(self, slot: int) -> None:
        if self._counts.get(slot):
            self._counts.set(slot, 0)
            self._heads[slot].fill_(0)

    @property
    def held(self) -> int:
        return int(np_count(self._counts))


class RowList:
    """A collector whose rows are as large as a request says: a list a slot."""

    def __init__(self, name: str, *, capacity: int | None, slots: int) -> None:
        self.name = name
        self._rows: list[list[Tensor]] = [[] for _ in range(slots)]
        self._counts = LazyCounts(slots)
        self._capacity = capacity

    def reset(self, batch: StepBatch) -> None:
        for slot in batch.slot_list:
            self._rows[slot] = []
        batch.record_reset(self)

    def append(self, batch: StepBatch, value: Tensor, where: Tensor | None = None) -> None:
        assert where is None, f"{self.name}: a pass collects behind its test"
        for row, slot in enumerate(batch.slot_list):
            most = self._capacity
            assert most is None or len(self._rows[slot]) < most, f"{self.name} is full"
            self._rows[slot].append(value[row].clone())
        batch.record_append(self, where)

    def get(self, job: Job) -> Tensor:
        return self.read(job.slot)

    def pack(self, batch: StepBatch) -> Tensor:
        batch.packed_lengths = list(self.lengths(batch))
        return torch.cat([torch.stack(self._rows[slot]) for slot in batch.slot_list])

    def stack(self, batch: StepBatch) -> Tensor:
        (slot,) = batch.slot_list
        return torch.stack(self._rows[slot])[None]

    def lengths(self, batch: StepBatch) -> Sequence[int]:
        return [len(self._rows[slot]) for slot in batch.slot_list]

    def read(self, slot: int) -> Tensor:
        return torch.stack(self._rows[slot]).cpu()

    def write(self, slot: int, value: Any) -> None:
        self._rows[slot] = list(torch.as_tensor(value))
        self._counts.set(slot, len(self._rows[slot]))

    def landed_all(self, slots: Slots, count: int) -> None:
        self._counts.add(slots, count)

    def landed_reset(self, slots: Slots) -> None:
        self._counts.settle()[slots] = 0

    def restore_heads(self, slots: Slots) -> None:
        """Forgets what a failed run has appended."""
        for slot in slots.tolist():
            del self._rows[slot][self._counts.get(slot) :]

    def release(self, slot: int) -> None:
        self._rows[slot] = []
        if self._counts.get(slot):
            self._counts.set(slot, 0)

    @property
    def held(self) -> int:
        return sum(bool(rows) for rows in self._rows)


def np_count(counts: LazyCounts) -> int:
    """How many slots have a count."""
    return int((counts.settle() != 0).sum())

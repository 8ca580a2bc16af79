"""A stream's buffer on the rank that reads it.

Items of a step's rows → a circle of `capacity` items a slot on the device; chunks → gathered rows.
Where an item is written is counted on the device, so that `append` may be captured; the host keeps
its own count, one landing behind, and from it knows who can read and who has room.

Host side: `wait` and `take` for the reader, `room` and `landed` for the producer, `put`, `close`
and `release` for both.
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
from mstarc_runtime.plan_api import Maybe, Policy
from mstarc_runtime.streaming.chunks import Chunk
from mstarc_runtime.streaming.counts import Slots
from mstarc_runtime.streaming.cursors import Cursors
from mstarc_runtime.streaming.standing import StreamListener, is_single


class Ring(Cursors):
    """Buffer, cursors and counts of one stream for all slots of a rank; the last row is padding."""

    def __init__(
        self,
        name: str,
        *,
        dtype: str,
        item: tuple[int, ...],
        policy: Policy,
        capacity: int,
        slots: int,
        device: torch.device,
        listener: StreamListener,
    ) -> None:
        super().__init__(name, policy=policy, capacity=capacity, slots=slots, listener=listener)
        # Whether steps of this rank append to it, too.
        self.is_fed_here = True
        self._item = item
        self._device = device
        self._storage = torch.zeros(
            (slots + 1, capacity, *item), dtype=torch_dtype(dtype), device=device
        )
        self._heads = torch.zeros(slots + 1, dtype=torch.int64, device=device)

    # What a plan calls

    def append(
        self,
        batch: StepBatch | Job,
        value: Tensor,
        where: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> None:
        if isinstance(batch, Job):
            batch.send(self, value)
            return
        counts = batch.rows_of(value, len(self._item))
        if counts is None:
            items = value if value.dim() == len(self._item) + 2 else value.unsqueeze(1)
            self._store(batch, items, where)
            batch.record_send(self, items.shape[1], where, ends)
            return
        assert where is None, "packed items are sent whole"
        self._store_packed(batch, value, counts)
        batch.record_packed_send(self, counts, ends=ends)

    def window(self, batch: StepBatch) -> Tensor:
        items = self._storage[batch.device_slots[:, None], batch.ring_index(self)]
        cut = batch.step.cut
        return items.squeeze(1) if is_single(cut.policy if cut else self.policy) else items

    def item(self, batch: StepBatch) -> Tensor:
        return self._storage[batch.device_slots, batch.ring_index(self)[:, 0]]

    def item_or_none(self, batch: StepBatch) -> Maybe:
        there, items = batch.ring_presence(self), self.item(batch)
        shape = (-1,) + (1,) * len(self._item)
        return Maybe(items.masked_fill(~there.view(shape), 0), there)

    def pack(self, batch: StepBatch) -> Tensor:
        chunks = batch.chunks[self.name]
        parts = [
            self._storage[slot, self.index_of(chunk)]
            for slot, chunk in zip(batch.slot_list, chunks, strict=True)
        ]
        batch.packed_lengths = [chunk.length for chunk in chunks]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def lengths(self, batch: StepBatch) -> Sequence[int]:
        return [chunk.length for chunk in batch.chunks[self.name]]

    def chunk(self, job: Job) -> Tensor:
        items: Tensor = job.chunks[self.name]
        return items

    def release(self, slot: int) -> None:
        if self.sent(slot):
            self._heads[slot].fill_(0)
        self.forget(slot)

    # The reader

    def take(self, slot: int) -> Chunk:
        """Cuts the next chunk of `slot`, which is ready. Its items stay until the run is over."""
        chunk = super().take(slot)
        if chunk.padding:
            self._pad(slot, chunk)
        return chunk

    def index_of(self, chunk: Chunk) -> Tensor:
        """Where a chunk's items stand in the circle: i64[length]."""
        positions = torch.arange(chunk.offset, chunk.offset + chunk.length, device=self._device)
        return positions % self.capacity

    def items_of(self, slot: int, chunk: Chunk) -> Tensor:
        """A copy of a chunk on the host: [k, *item], or [*item] of a stream read one by one."""
        items = self._storage[slot, self.index_of(chunk)].cpu()
        return items[0] if is_single(self._cutters[slot].policy) else items

    # The producer

    @property
    def item_dims(self) -> int:
        return len(self._item)

    def put(self, slot: int, values: Tensor, ends: Sequence[int] = ()) -> None:
        """Items [n, *item] from the host or from another rank."""
        count = values.shape[0]
        start = int(self._sent[slot])
        positions = torch.arange(start, start + count, device=self._device) % self.capacity
        self._storage[slot, positions] = self._brought(values).to(self._storage.dtype)
        self.count_in(slot, count, ends)

    @property
    def storage(self) -> Tensor:
        """All items: [slots + 1, capacity, *item], for who writes them from elsewhere."""
        return self._storage

    def count_in(self, slot: int, count: int, ends: Sequence[int] = ()) -> None:
        """`count` more items are in the buffer, where they belong."""
        assert count <= self.room(slot), f"stream {self.name} has no room for {count} items"
        if self.is_fed_here:
            self._heads[slot].fill_(int(self._sent[slot]) + count)
        cutter = self._synced(slot)
        cutter.put(count, ends)
        self._refresh(slot, cutter)
        self.landed(np.array([slot], dtype=np.int64), count)

    def is_next(self, slots: Slots, firsts: NDArray[np.int64]) -> bool:
        """Whether item `firsts[i]` is the next that `slots[i]` gets."""
        return bool((self._sent[slots] == firsts).all())

    def put_each(self, slots: Slots, counts: NDArray[np.int64], values: Tensor | None) -> None:
        """What another rank has sent to each of `slots`, of which none ends a chunk: `counts[i]`
        items, in `values` [n, *item] one slot behind the other, or in the buffer already."""
        first = self._sent[slots]
        now = first + counts
        assert (now <= self._full_at[slots]).all(), f"stream {self.name} has no room for {counts}"
        if values is not None:
            behind = np.cumsum(counts) - counts
            numbers = np.arange(counts.sum()) + np.repeat(first - behind, counts)
            where = (np.repeat(slots, counts), numbers % self.capacity)
            rows, places = (self._brought(torch.from_numpy(array)) for array in where)
            self._storage[rows, places] = self._brought(values).to(self._storage.dtype)
        if self.is_fed_here:
            rows, heads = (self._brought(torch.from_numpy(array)) for array in (slots, now))
            self._heads[rows] = heads
        self.landed(slots, counts)

    def _brought(self, values: Tensor) -> Tensor:
        """On the device, and without waiting for what that has to do."""
        if self._device.type == "cuda" and values.device.type == "cpu":
            values = values.pin_memory()
        return values.to(self._device, non_blocking=True)

    def restore_heads(self, slots: Slots) -> None:
        """Forgets what a failed run has appended."""
        counts = torch.from_numpy(self._sent[slots])
        self._heads[torch.from_numpy(slots)] = counts.to(self._device)

    def _store(self, batch: StepBatch, items: Tensor, where: Tensor | None) -> None:
        slots, count = batch.device_slots, items.shape[1]
        if self._device.type == "cuda":
            # Here, because the kernels' compiler comes with torch for GPUs only.
            from mstarc_runtime.kernels.append import MOST_ITEMS, append

            if count <= MOST_ITEMS:
                append(items, slots=slots, heads=self._heads, storage=self._storage, where=where)
                return
        heads = self._heads.index_select(0, slots)
        positions = heads[:, None] + batch.steps_to(count)
        # A row that sends nothing writes too, to a place that nobody reads before it is sent.
        self._storage.index_put_((slots[:, None], positions % self.capacity), items)
        step = count if where is None else where.to(torch.int64) * count
        self._heads.index_copy_(0, slots, heads + step)

    def _store_packed(self, batch: StepBatch, value: Tensor, counts: Sequence[int]) -> None:
        start = 0
        for slot, count in zip(batch.slot_list, counts, strict=True):
            head = int(self._sent[slot])
            positions = torch.arange(head, head + count, device=self._device) % self.capacity
            self._storage[slot, positions] = value[start : start + count]
            self._heads[slot].fill_(head + count)
            start += count

    def _pad(self, slot: int, chunk: Chunk) -> None:
        pad: Any = self.policy.pad
        end = chunk.offset + chunk.items
        positions = torch.arange(end, end + chunk.padding, device=self._device) % self.capacity
        self._storage[slot, positions] = pad

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
from mstarc_runtime.plan_api import Cut, Maybe, Policy
from mstarc_runtime.streaming.chunks import NEVER, Chunk, Cutter
from mstarc_runtime.streaming.counts import Slots
from mstarc_runtime.streaming.standing import Standing, StreamListener, is_single

_YES = b"\x01"


class Ring:
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
        self.name = name
        self.policy = policy
        self.capacity = capacity
        # Whether steps of this rank append to it, too.
        self.is_fed_here = True
        self._item = item
        self._device = device
        self._listener = listener
        self._storage = torch.zeros(
            (slots + 1, capacity, *item), dtype=torch_dtype(dtype), device=device
        )
        self._heads = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._sent: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self._reached: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        # The count at which a slot has no room for another burst of one item.
        self._full_at: NDArray[np.int64] = np.full(slots, capacity, dtype=np.int64)
        self._cutters = [Cutter(policy) for _ in range(slots)]
        self._fires_at: NDArray[np.int64] = np.full(slots, NEVER, dtype=np.int64)
        self._keeps_from: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        # Slots of which something has been read.
        self._is_read: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        # Slots of which a chunk is still to be read by the device.
        self._held: set[int] = set()
        # All chunks but a tail have this length, if the policy says so.
        is_even = policy.kind in ("fixed", "sliding") and not policy.ramp
        self._full_length = policy.size if is_even else 0

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
        self._held.discard(slot)
        if int(self._sent[slot]):
            self._sent[slot] = 0
            self._heads[slot] = 0
        if not self._cutters[slot].is_untouched:
            self._cutters[slot] = Cutter(self.policy)
        self._fires_at[slot] = NEVER
        self._keeps_from[slot] = 0
        self._full_at[slot] = self.capacity
        self._is_read[slot] = False

    # The reader

    def wait(self, slot: int, cut: Cut | None = None, *, ahead: bool = False) -> Standing:
        """Where the reader of `slot` stands; if it waits, the listener will be told.

        `cut`: how this read cuts the stream, where not as the stream says. `ahead`: it waits until
        it is known whether the next chunk is the last.
        """
        cutter = self._synced(slot)
        if cutter.cut_by(cut.policy if cut else self.policy, cut.until if cut else None):
            return "drained"
        if cutter.is_ready:
            return self._ahead(slot, cutter, cut) if ahead else "ready"
        if not cutter.closed:
            self._fires_at[slot] = cutter.fires_at
            return "waiting"
        return "empty" if cutter.is_empty and self.policy.empty == "error" else "drained"

    def _ahead(self, slot: int, cutter: Cutter, cut: Cut | None) -> Standing:
        """Whether the next chunk is the last, once there is another one or that is sure."""
        behind = cutter.behind()
        if behind.cut_by(behind.policy, cut.until if cut else None):
            return "last"
        if behind.is_ready:
            return "ready"
        if behind.closed:
            return "last"
        self._fires_at[slot] = behind.fires_at
        return "waiting"

    def wait_item(self, slot: int) -> Standing:
        """The same for a reader that pulls one item, or none behind the close."""
        cutter = self._synced(slot)
        if cutter.sent >= cutter.pulls_at:
            return "ready"
        if cutter.closed:
            return "drained"
        self._fires_at[slot] = cutter.pulls_at
        return "waiting"

    def pull(self, slot: int) -> Chunk | None:
        """Takes the next item of `slot`; none if the stream is closed and empty."""
        cutter = self._synced(slot)
        chunk = cutter.pull()
        self._give_room(slot, cutter)
        return chunk

    def to_pull(self, slots: Slots) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each of `slots`, which item is pulled next, and of how many that were sent."""
        cutters = [self._synced(slot) for slot in slots.tolist()]
        first = np.array([cutter.pulls_at - 1 for cutter in cutters], dtype=np.int64)
        return first, np.array([cutter.sent for cutter in cutters], dtype=np.int64)

    def pulls_left(self, slots: Slots) -> NDArray[np.int64]:
        """How many passes may pull from each of `slots` as things stand."""
        return np.array([self._synced(slot).pulls_left for slot in slots.tolist()], dtype=np.int64)

    def pulled(self, slots: Slots, passes: NDArray[np.int64]) -> None:
        """So many passes of each of `slots` have pulled an item, or none behind the close."""
        for slot, count in zip(slots.tolist(), passes.tolist(), strict=True):
            cutter = self._synced(slot)
            for _ in range(count):
                cutter.pull()
            self._give_room(slot, cutter)

    def mark(self, slot: int, name: str) -> None:
        """A mark behind all items so far."""
        self._synced(slot).mark(name)
        if self._fires_at[slot] != NEVER:
            self._fires_at[slot] = NEVER
            self._listener.reader_woken(self.name, slot, False)

    def leave(self, slot: int, until: str) -> None:
        """The reader of `slot` has read up to the mark `until`, or up to the close."""
        cutter = self._synced(slot)
        if cutter.cut_by(cutter.policy, until):
            cutter.pass_mark()

    def leave_open(self, slot: int) -> None:
        """Nobody reads `slot` any more: whoever sends never waits."""
        self._keeps_from[slot] = self._full_at[slot] = NEVER
        self._fires_at[slot] = NEVER
        self._listener.room_made(self.name, slot, NEVER)

    def hold(self, slot: int) -> None:
        """What is taken from now on stays in the buffer until `let_go`: it is read later."""
        self._held.add(slot)

    def let_go(self, slot: int) -> None:
        """What was held has been read."""
        if slot in self._held:
            self._held.discard(slot)
            self._give_room(slot, self._synced(slot))

    def take(self, slot: int) -> Chunk:
        """Cuts the next chunk of `slot`, which is ready. Its items stay until the run is over."""
        cutter = self._synced(slot)
        chunk = cutter.take()
        if chunk.padding:
            self._pad(slot, chunk)
        self._give_room(slot, cutter)
        return chunk

    def _give_room(self, slot: int, cutter: Cutter) -> None:
        self._fires_at[slot] = NEVER
        self._is_read[slot] = True
        if slot in self._held:
            return
        keeps_from = cutter.keeps_from
        if keeps_from > self._keeps_from[slot]:
            self._keeps_from[slot] = keeps_from
            self._full_at[slot] = keeps_from + self.capacity
            self._listener.room_made(self.name, slot, keeps_from)

    def next_shape(self, slot: int) -> tuple[int, int]:
        """As `shape_of`, of the chunk that `take` would cut now, without cutting it."""
        cutter = self._cutters[slot]
        if self._full_length and cutter.is_plain and cutter.policy is self.policy:
            return self._full_length, 0
        return self.shape_of(self._synced(slot).peek())

    def shape_of(self, chunk: Chunk) -> tuple[int, int]:
        """A chunk's rows, and how many of them are old where the policy is `left_context`."""
        return chunk.length, chunk.context if self.policy.kind == "left_context" else 0

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

    def room(self, slot: int) -> int:
        """Items that may still be sent before the reader has to take some."""
        return int(self._full_at[slot] - self._sent[slot])

    def least_room(self, slots: Slots) -> int:
        """Items that every one of `slots` may still send."""
        return int((self._full_at[slots] - self._sent[slots]).min())

    def least_to_first(self, slots: Slots) -> int:
        """Items until the first of those of `slots` can be read of which nothing was read yet."""
        return int(np.where(self._is_read, NEVER, self._fires_at - self._sent)[slots].min())

    def landed_each(self, portions: NDArray[np.int64], burst: int) -> bool:
        """Slot i has sent `portions[i]` more items, for all slots at once.

        Returns whether all still have room for `burst` more.
        """
        sent, reached = self._sent, self._reached
        np.add(sent, portions, out=sent)
        np.greater_equal(sent, self._fires_at, out=reached)
        if _YES in reached.tobytes():
            self._fire(reached.nonzero()[0].tolist())
        np.less(self._full_at, sent + burst, out=reached)
        return _YES not in reached.tobytes()

    def landed(self, slots: Slots, count: int, ends: NDArray[np.bool_] | None = None) -> None:
        """Each of `slots` has sent `count` items; `ends` [rows, count]: which end a chunk."""
        sent = self._sent
        if ends is not None and ends.any():
            for row in np.flatnonzero(ends.any(axis=1)).tolist():
                slot = int(slots[row])
                cutter = self._synced(slot)
                cutter.put(count, np.flatnonzero(ends[row]).tolist())
                self._refresh(slot, cutter)
        now = sent[slots] + count
        sent[slots] = now
        self._fire(slots[now >= self._fires_at[slots]].tolist())

    def _fire(self, slots: list[int]) -> None:
        """Their readers wait, and can go on."""
        self._fires_at[slots] = NEVER
        for slot in slots:
            self._listener.reader_woken(self.name, slot, True)

    def put(self, slot: int, values: Tensor, ends: Sequence[int] = ()) -> None:
        """Items [n, *item] from the host or from another rank."""
        count = values.shape[0]
        start = int(self._sent[slot])
        positions = torch.arange(start, start + count, device=self._device) % self.capacity
        self._storage[slot, positions] = values.to(self._device, self._storage.dtype)
        self.count_in(slot, count, ends)

    @property
    def storage(self) -> Tensor:
        """All items: [slots + 1, capacity, *item], for who writes them from elsewhere."""
        return self._storage

    def count_in(self, slot: int, count: int, ends: Sequence[int] = ()) -> None:
        """`count` more items are in the buffer, where they belong."""
        assert count <= self.room(slot), f"stream {self.name} has no room for {count} items"
        if self.is_fed_here:
            self._heads[slot] = int(self._sent[slot]) + count
        cutter = self._synced(slot)
        cutter.put(count, ends)
        self._refresh(slot, cutter)
        self.landed(np.array([slot], dtype=np.int64), count)

    def close(self, slot: int) -> None:
        cutter = self._synced(slot)
        cutter.close()
        if self._fires_at[slot] != NEVER:
            self._fires_at[slot] = NEVER
            self._listener.reader_woken(self.name, slot, cutter.is_ready)

    def sent(self, slot: int) -> int:
        return int(self._sent[slot])

    def restore_heads(self, slots: Slots) -> None:
        """Forgets what a failed run has appended."""
        counts = torch.from_numpy(self._sent[slots])
        self._heads[torch.from_numpy(slots)] = counts.to(self._device)

    def snapshot(self) -> dict[str, int]:
        """What requests hold here: nothing, when there are none."""
        return {
            "items": int(self._sent.sum()),
            "cursors": sum(not cutter.is_untouched for cutter in self._cutters),
        }

    def _synced(self, slot: int) -> Cutter:
        cutter = self._cutters[slot]
        behind = int(self._sent[slot]) - cutter.sent
        if behind > 0:
            cutter.put(behind)
        return cutter

    def _refresh(self, slot: int, cutter: Cutter) -> None:
        if self._fires_at[slot] != NEVER:
            # A reader that looks ahead may be woken early: it asks again.
            self._fires_at[slot] = min(int(self._fires_at[slot]), cutter.fires_at)

    def _store(self, batch: StepBatch, items: Tensor, where: Tensor | None) -> None:
        slots, count = batch.device_slots, items.shape[1]
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
            self._heads[slot] = head + count
            start += count

    def _pad(self, slot: int, chunk: Chunk) -> None:
        pad: Any = self.policy.pad
        end = chunk.offset + chunk.items
        positions = torch.arange(end, end + chunk.padding, device=self._device) % self.capacity
        self._storage[slot, positions] = pad

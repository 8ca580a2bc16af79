"""The way from a rank to a stream's ring on another rank.

What a step sends is kept until it lands, then leaves as one message for the whole step; or, where
the reader's device can be written from here, the step writes it there, and the message only counts.
The reader's rank tells how far it has read; the difference is the room: a producer never floods a
reader. Items are numbered: a machine that moves from rank to rank takes its count along.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.job import Job
from mstarc_runtime.streaming.counts import LazyCounts, Slots
from mstarc_runtime.streaming.peer_ring import RESERVE, PeerRing, is_long_enough


class Courier(Protocol):
    """Carries items to the rank that holds the ring."""

    def carry_items(
        self,
        stream: str,
        rank: int,
        slot: int,
        first: int,
        values: Tensor,
        ends: Sequence[int],
    ) -> None:
        """`values` [n, *item] of a slot; the first has the number `first`."""
        ...

    def carry_written(
        self,
        stream: str,
        rank: int,
        slots: Sequence[int],
        firsts: Sequence[int],
        count: int,
        ends: Sequence[Sequence[int]] | None,
    ) -> None:
        """`count` items of each slot, from number `firsts[i]` on, which are in the ring already.

        `ends[i]` are those that end a chunk, if any do.
        """
        ...

    def carry_mark(self, stream: str, rank: int, slot: int, count: int, mark: str) -> None:
        """A mark behind `count` items."""
        ...

    def carry_close(self, stream: str, rank: int, slot: int, count: int) -> None:
        """`count` items were sent in all."""
        ...


class Outbox:
    """Counts of one stream, for all slots, on the rank that sends."""

    def __init__(
        self,
        name: str,
        *,
        item: tuple[int, ...],
        rank: int,
        capacity: int,
        slots: int,
        courier: Courier,
    ) -> None:
        self.name = name
        self.rank = rank
        self.capacity = capacity
        self.item = item
        self._courier = courier
        self._sent = LazyCounts(slots)
        self._read: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self._peer: PeerRing | None = None

    def connect(self, peer: PeerRing) -> None:
        """From now on items are written into the reader's memory. Before anything is captured."""
        assert self._peer is None and is_long_enough(self.capacity), self.name
        self._peer = peer
        self.capacity -= RESERVE

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
        counts = batch.rows_of(value, len(self.item))
        if counts is None:
            items = value if value.dim() == len(self.item) + 2 else value.unsqueeze(1)
            if self._peer is None:
                batch.record_send(self, items.shape[1], where, ends, items)
                return
            self._peer.append(batch, items, where)
            batch.record_send(self, items.shape[1], where, ends)
            return
        assert where is None, "packed items are sent whole"
        if self._peer is None:
            batch.record_packed_send(self, counts, value, ends)
            return
        firsts = [self._sent.get(slot) for slot in batch.slot_list]
        self._peer.append_packed(batch.slot_list, firsts, counts, value)
        batch.record_packed_send(self, counts, ends=ends)

    @property
    def item_dims(self) -> int:
        return len(self.item)

    def room(self, slot: int) -> int:
        return self.capacity - self._sent.get(slot) + int(self._read[slot])

    def least_room(self, slots: Slots) -> int:
        """Items that every one of `slots` may still send."""
        sent = self._sent.settle()[slots]
        return int((self._read[slots] - sent).min()) + self.capacity

    def read_to(self, slot: int, count: int) -> None:
        """The reader has no more use for the first `count` items."""
        self._read[slot] = max(int(self._read[slot]), count)

    def landed(self, slots: Slots, count: int, ends: NDArray[np.bool_] | None = None) -> None:
        """Each of `slots` has written `count` items; `ends` [rows, count]: which end a chunk."""
        assert self._peer is not None, "items that go as messages are landed with their values"
        sent = self._sent.settle()
        firsts = sent[slots]
        sent[slots] = firsts + count
        ended = None if ends is None else [np.flatnonzero(row).tolist() for row in ends]
        self._courier.carry_written(
            self.name, self.rank, slots.tolist(), firsts.tolist(), count, ended
        )

    def restore_heads(self, slots: Slots) -> None:
        """Forgets what a failed run has written."""
        if self._peer is not None:
            self._peer.set_heads(slots, self._sent.settle()[slots])

    def put(self, slot: int, values: Tensor, ends: Sequence[int] = ()) -> None:
        """Sends items [n, *item] of a slot."""
        first = self._sent.get(slot)
        self._sent.set(slot, first + values.shape[0])
        if self._peer is not None:
            self._peer.set_head(slot, first + values.shape[0])
        self._courier.carry_items(self.name, self.rank, slot, first, values, ends)

    def mark(self, slot: int, name: str) -> None:
        self._courier.carry_mark(self.name, self.rank, slot, self._sent.get(slot), name)

    def close(self, slot: int) -> None:
        self._courier.carry_close(self.name, self.rank, slot, self._sent.get(slot))

    def sent(self, slot: int) -> int:
        return self._sent.get(slot)

    def set_sent(self, slot: int, count: int) -> None:
        """What a machine that came from another rank has sent there."""
        self._sent.set(slot, count)
        if self._peer is not None:
            self._peer.set_head(slot, count)

    def release(self, slot: int) -> None:
        if self._peer is not None and self._sent.get(slot):
            self._peer.set_head(slot, 0)
        self._sent.set(slot, 0)
        self._read[slot] = 0

    def snapshot(self) -> dict[str, Any]:
        return {"items": int(self._sent.settle().sum())}

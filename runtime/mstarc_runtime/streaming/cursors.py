"""How far a stream was sent and read, on the rank that reads: for all slots, without its items.

Chunks are cut by a `Cutter` a slot (`chunks`). What comes often it is told only when it is asked:
what was sent, and what a reader that pulls item by item has pulled, are counted in arrays, so that
requests which go on together cost little more than one.
"""

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.plan_api import Cut, Policy
from mstarc_runtime.streaming.chunks import NEVER, Chunk, Cutter
from mstarc_runtime.streaming.counts import Slots
from mstarc_runtime.streaming.standing import Standing, StreamListener

_YES = b"\x01"


class Cursors:
    """Cursors and counts of one stream for all slots of a rank."""

    def __init__(
        self, name: str, *, policy: Policy, capacity: int, slots: int, listener: StreamListener
    ) -> None:
        self.name = name
        self.policy = policy
        self.capacity = capacity
        self._listener = listener
        self._sent: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self._reached: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        # The count at which a slot has no room for another burst of one item.
        self._full_at: NDArray[np.int64] = np.full(slots, capacity, dtype=np.int64)
        self._cutters = [Cutter(policy) for _ in range(slots)]
        self._fires_at: NDArray[np.int64] = np.full(slots, NEVER, dtype=np.int64)
        self._keeps_from: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        # Slots of which something has been read.
        self._is_read: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        # Slots that are pulled from item by item, and how many of their items were: the cutter does
        # not know yet. And those that are closed.
        self._is_pulling: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        self._pulled_to: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self._is_closed: NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        # Slots of which a chunk is still to be read by the device.
        self._held: set[int] = set()
        # All chunks but a tail have this length, if the policy says so.
        is_even = policy.kind in ("fixed", "sliding") and not policy.ramp
        self._full_length = policy.size if is_even else 0

    def forget(self, slot: int) -> None:
        """The request of `slot` is over."""
        self._held.discard(slot)
        self._sent[slot] = 0
        if not self._cutters[slot].is_untouched:
            self._cutters[slot] = Cutter(self.policy)
        self._fires_at[slot] = NEVER
        self._keeps_from[slot] = 0
        self._full_at[slot] = self.capacity
        self._is_read[slot] = self._is_pulling[slot] = self._is_closed[slot] = False

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
        next_at = self._pulled_to[slot] if self._pulls(slot) else self._synced(slot).pulls_at - 1
        if self._sent[slot] > next_at:
            return "ready"
        if self._is_closed[slot]:
            return "drained"
        self._fires_at[slot] = next_at + 1
        return "waiting"

    def pull(self, slot: int) -> Chunk | None:
        """Takes the next item of `slot`; none if the stream is closed and empty."""
        cutter = self._synced(slot)
        chunk = cutter.pull()
        self._give_room(slot, cutter)
        return chunk

    def to_pull(self, slots: Slots) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each of `slots`, which item is pulled next, and of how many that were sent."""
        if self._pull(slots):
            return self._pulled_to[slots], self._sent[slots]
        cutters = [self._synced(slot) for slot in slots.tolist()]
        first = np.array([cutter.pulls_at - 1 for cutter in cutters], dtype=np.int64)
        return first, np.array([cutter.sent for cutter in cutters], dtype=np.int64)

    def pulls_left(self, slots: Slots) -> NDArray[np.int64]:
        """How many passes may pull from each of `slots` as things stand."""
        if self._pull(slots):
            left = self._sent[slots] - self._pulled_to[slots]
            return np.where(self._is_closed[slots], NEVER, left)
        return np.array([self._synced(slot).pulls_left for slot in slots.tolist()], dtype=np.int64)

    def pulled(self, slots: Slots, passes: NDArray[np.int64]) -> None:
        """So many passes of each of `slots` have pulled an item, or none behind the close."""
        if self._pull(slots) and self._held.isdisjoint(slots.tolist()):
            read_to = np.minimum(self._pulled_to[slots] + passes, self._sent[slots])
            self._pulled_to[slots] = read_to
            self._fires_at[slots] = NEVER
            self._is_read[slots] = True
            has_more = read_to > self._keeps_from[slots]
            self._keeps_from[slots[has_more]] = read_to[has_more]
            self._full_at[slots[has_more]] = read_to[has_more] + self.capacity
            for slot, to in zip(slots[has_more].tolist(), read_to[has_more].tolist(), strict=True):
                self._listener.room_made(self.name, slot, to)
            return
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

    def landed(
        self,
        slots: Slots,
        count: int | NDArray[np.int64],
        ends: NDArray[np.bool_] | None = None,
    ) -> None:
        """Each of `slots` has sent `count` items; `ends` [rows, count]: which end a chunk."""
        sent = self._sent
        if ends is not None and ends.any():
            for row in np.flatnonzero(ends.any(axis=1)).tolist():
                slot = int(slots[row])
                cutter = self._synced(slot)
                cutter.put(ends.shape[1], np.flatnonzero(ends[row]).tolist())
                self._refresh(slot, cutter)
        now = sent[slots] + count
        sent[slots] = now
        self._fire(slots[now >= self._fires_at[slots]].tolist())

    def _fire(self, slots: list[int]) -> None:
        """Their readers wait, and can go on."""
        self._fires_at[slots] = NEVER
        for slot in slots:
            self._listener.reader_woken(self.name, slot, True)

    def close(self, slot: int) -> None:
        cutter = self._synced(slot)
        cutter.close()
        self._is_closed[slot] = True
        if self._fires_at[slot] != NEVER:
            self._fires_at[slot] = NEVER
            self._listener.reader_woken(self.name, slot, cutter.is_ready)

    def sent(self, slot: int) -> int:
        return int(self._sent[slot])

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
        if self._is_pulling[slot]:
            self._is_pulling[slot] = False
            cutter.pulled_to(int(self._pulled_to[slot]))
        return cutter

    def _pulls(self, slot: int) -> bool:
        """Whether the reader of `slot` pulls, with nothing but items before it: then they are
        counted here."""
        if self._is_pulling[slot]:
            return True
        cutter = self._synced(slot)
        if not cutter.pulls_plainly:
            return False
        self._is_pulling[slot] = True
        self._pulled_to[slot] = cutter.pulls_at - 1
        return True

    def _pull(self, slots: Slots) -> bool:
        """The same of all of `slots`."""
        if self._is_pulling[slots].all():
            return True
        return all(self._pulls(slot) for slot in slots.tolist())

    def _refresh(self, slot: int, cutter: Cutter) -> None:
        if self._fires_at[slot] != NEVER:
            # A reader that looks ahead may be woken early: it asks again.
            self._fires_at[slot] = min(int(self._fires_at[slot]), cutter.fires_at)

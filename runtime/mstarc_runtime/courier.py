"""What goes from rank to rank for streams: items, marks, closes and credits.

Everything that one step sends to a stream leaves as one message. Items carry their numbers, because
a machine that has moved sends from another rank than before and its messages may overtake: what
comes too early is kept until its turn.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.engine.dtypes import dtype_name
from mstarc_runtime.frames import Frame, tensor_frame, tensor_of
from mstarc_runtime.messages import Closed, Items, Marked, Message, Moved, ReadTo
from mstarc_runtime.streaming.peer_ring import is_long_enough
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.transport.mailbox import Parcel

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


# Items of which the producers of a long ring need not know yet that they were read.
_UNTOLD = 64


class RankCourier:
    """The rank's way to other ranks."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        # (stream, process) → what its message will carry: slots, firsts, values, ends.
        self._outgoing: dict[tuple[str, int], list[tuple[int, int, Tensor, Sequence[int]]]] = {}
        # The same of items that are in the reader's memory already, with counts for values.
        self._written: dict[tuple[str, int], list[tuple[int, int, int, Sequence[int]]]] = {}
        # (stream, slot) → items that came before those in front of them; first number → items, or
        # how many are in the ring.
        self._ahead: dict[
            tuple[str, int], dict[int, tuple[Tensor | int, tuple[int, ...], int]]
        ] = {}
        # (stream, slot) → marks that wait for the items before them, by number.
        self._marks: dict[tuple[str, int], dict[int, tuple[int, str]]] = {}
        # (stream, slot) → marks that are in the ring.
        self._marked: dict[tuple[str, int], int] = {}
        self._closes: dict[tuple[str, int], int] = {}
        # (stream, slot) → how far it was read as the producers were told last.
        self._told_room: dict[tuple[str, int], int] = {}

    @property
    def held(self) -> int:
        """Requests' things that wait here."""
        out = (self._outgoing, self._written)
        kept = (*out, self._ahead, self._marks, self._marked, self._closes)
        return sum(len(things) for things in kept)

    # Sending

    def carry_items(
        self,
        stream: str,
        rank: int,
        slot: int,
        first: int,
        values: Tensor,
        ends: Sequence[int],
    ) -> None:
        process = self._worker.live[slot].where[rank]
        self._outgoing.setdefault((stream, process), []).append((slot, first, values, ends))

    def carry_written(
        self,
        stream: str,
        rank: int,
        slots: Sequence[int],
        firsts: Sequence[int],
        count: int,
        ends: Sequence[Sequence[int]] | None,
    ) -> None:
        live = self._worker.live
        for row, (slot, first) in enumerate(zip(slots, firsts, strict=True)):
            written = self._written.setdefault((stream, live[slot].where[rank]), [])
            written.append((slot, first, count, () if ends is None else ends[row]))

    def carry_mark(self, stream: str, rank: int, slot: int, count: int, mark: str) -> None:
        live = self._worker.live[slot]
        number = live.marks.get(stream, 0)
        live.marks[stream] = number + 1
        message = Marked(stream, slot, live.request, count, number, mark)
        self._worker.mailbox.send(live.where[rank], message)

    def carry_close(self, stream: str, rank: int, slot: int, count: int) -> None:
        live = self._worker.live[slot]
        self._worker.mailbox.send(live.where[rank], Closed(stream, slot, live.request, count))

    def carry_room(self, stream: str, ranks: Sequence[int], slot: int, read_to: int) -> None:
        """Tells those who send how far a stream was read; of a long ring not of each item."""
        told = self._told_room.get((stream, slot), 0)
        if read_to - told < (_UNTOLD if is_long_enough(self._capacity(stream)) else 1):
            return
        self._told_room[(stream, slot)] = read_to
        live = self._worker.live[slot]
        for rank in ranks:
            message = ReadTo(stream, slot, live.request, read_to)
            self._worker.mailbox.send(live.where[rank], message)

    def _capacity(self, stream: str) -> int:
        return self._worker.parts.rings[stream].capacity

    def flush(self) -> None:
        """Sends what has gathered."""
        live = self._worker.live
        for (stream, process), written in self._written.items():
            told = [entry for entry in written if entry[0] in live]
            if told:
                self._worker.mailbox.send(process, self._items_of(stream, told))
        self._written.clear()
        if not self._outgoing:
            return
        for (stream, process), sends in self._outgoing.items():
            sends = [send for send in sends if send[0] in live]
            if not sends:
                continue
            values = torch.cat([items for _, _, items, _ in sends])
            message = Items(
                stream=stream,
                slots=tuple(slot for slot, _, _, _ in sends),
                requests=tuple(live[slot].request for slot, _, _, _ in sends),
                firsts=tuple(first for _, first, _, _ in sends),
                counts=tuple(items.shape[0] for _, _, items, _ in sends),
                ends=tuple(tuple(ends) for _, _, _, ends in sends),
                marks=tuple(live[slot].marks.get(stream, 0) for slot, _, _, _ in sends),
                dtype=dtype_name(values.dtype),
                dims=tuple(values.shape[1:]),
            )
            self._worker.mailbox.send(process, message, (tensor_frame(values),))
        self._outgoing.clear()

    def _items_of(self, stream: str, told: list[tuple[int, int, int, Sequence[int]]]) -> Items:
        """The message of items that are in the reader's memory: it has no frame."""
        live = self._worker.live
        return Items(
            stream=stream,
            slots=tuple(slot for slot, _, _, _ in told),
            requests=tuple(live[slot].request for slot, _, _, _ in told),
            firsts=tuple(first for _, first, _, _ in told),
            counts=tuple(count for _, _, count, _ in told),
            ends=tuple(tuple(ends) for _, _, _, ends in told),
            marks=tuple(live[slot].marks.get(stream, 0) for slot, _, _, _ in told),
            dtype="",
            dims=(),
        )

    # Receiving

    def take_in(self, items: Items, frames: Sequence[Frame]) -> bool:
        """Puts all of a message into its ring at once.

        False, and nothing was done, where a part of it is not what comes next, ends a chunk, or is
        for a request that is over or not here yet.
        """
        if self._ahead or self._marks or self._closes or any(items.ends):
            return False
        live, marked, stream = self._worker.live, self._marked, items.stream
        for slot, request, marks in zip(items.slots, items.requests, items.marks, strict=True):
            one = live.get(slot)
            if one is None or one.request != request or one.is_ending:
                return False
            if marks != marked.get((stream, slot), 0):
                return False
        ring, slots = self._worker.parts.rings[stream], np.array(items.slots, dtype=np.int64)
        if not ring.is_next(slots, np.array(items.firsts, dtype=np.int64)):
            return False
        if len(set(items.slots)) < slots.size:
            return False
        values = None
        if items.dtype:
            values = tensor_of(frames[0], items.dtype, (sum(items.counts), *items.dims))
        ring.put_each(slots, np.array(items.counts, dtype=np.int64), values)
        return True

    def split(self, parcel: Parcel) -> Iterator[Parcel]:
        """One parcel a slot."""
        message = parcel.message
        if not isinstance(message, Items) or len(message.slots) == 1:
            yield parcel
            return
        parts: Sequence[Tensor | None] = [None] * len(message.slots)
        if message.dtype:
            items = tensor_of(parcel.frames[0], message.dtype, (sum(message.counts), *message.dims))
            parts = items.split(list(message.counts))
        for index, part in enumerate(parts):
            single = Items(
                stream=message.stream,
                slots=(message.slots[index],),
                requests=(message.requests[index],),
                firsts=(message.firsts[index],),
                counts=(message.counts[index],),
                ends=(message.ends[index],),
                marks=(message.marks[index],),
                dtype=message.dtype,
                dims=message.dims,
            )
            yield Parcel(single, () if part is None else (tensor_frame(part),))

    def addressee(self, message: Message) -> tuple[int, int]:
        """(slot, request) of a message for one slot."""
        match message:
            case Items(slots=(slot,), requests=(request,)):
                return slot, request
            case Marked() | Closed() | ReadTo() | Moved():
                return message.slot, message.request
            case _:
                raise AssertionError(f"{message} is for no slot")

    def deliver(self, parcel: Parcel, slot: int) -> None:
        """Does what a message for a live request says."""
        match parcel.message:
            case Items() as message:
                items: Tensor | int = message.counts[0]
                if message.dtype:
                    dims = (message.counts[0], *message.dims)
                    items = tensor_of(parcel.frames[0], message.dtype, dims)
                ahead = self._ahead.setdefault((message.stream, slot), {})
                ahead[message.firsts[0]] = (items, message.ends[0], message.marks[0])
                self._advance(message.stream, slot)
            case Marked(stream=stream, number=number, count=count, mark=mark):
                self._marks.setdefault((stream, slot), {})[number] = (count, mark)
                self._advance(stream, slot)
            case Closed(stream=stream, count=count):
                self._closes[(stream, slot)] = count
                self._advance(stream, slot)
            case ReadTo(stream=stream, count=count):
                self._worker.parts.outboxes[stream].read_to(slot, count)
                self._worker.router.unblock_senders(stream, slot)
            case Moved():
                self._worker.mover.arrive(parcel, slot)
            case other:
                raise AssertionError(f"{other} is for no slot")

    def forget(self, slot: int) -> None:
        """Drops what waits here for a request that is over."""
        for kept in (self._ahead, self._marks, self._marked, self._closes, self._told_room):
            for key in [key for key in kept if key[1] == slot]:
                del kept[key]
        for sends in self._outgoing.values():
            sends[:] = [send for send in sends if send[0] != slot]
        for written in self._written.values():
            written[:] = [entry for entry in written if entry[0] != slot]

    def _advance(self, stream: str, slot: int) -> None:
        """Puts into the ring what is next in number, as far as it goes."""
        ring = self._worker.parts.rings[stream]
        ahead = self._ahead.get((stream, slot), {})
        while self._put_next_mark(ring, slot) or self._put_next_items(ring, slot, ahead):
            pass
        if not ahead:
            self._ahead.pop((stream, slot), None)
        if self._closes.get((stream, slot)) == ring.sent(slot):
            del self._closes[(stream, slot)]
            ring.close(slot)

    def _put_next_items(
        self,
        ring: Ring,
        slot: int,
        ahead: dict[int, tuple[Tensor | int, tuple[int, ...], int]],
    ) -> bool:
        """Items that are next, with no mark before them that is still to come."""
        found = ahead.get(ring.sent(slot))
        if found is None or found[2] != self._marked.get((ring.name, slot), 0):
            return False
        items, ends, _ = ahead.pop(ring.sent(slot))
        if isinstance(items, int):
            ring.count_in(slot, items, ends)
        else:
            ring.put(slot, items, ends)
        return True

    def _put_next_mark(self, ring: Ring, slot: int) -> bool:
        waiting = self._marks.get((ring.name, slot), {})
        number = self._marked.get((ring.name, slot), 0)
        if number not in waiting or waiting[number][0] != ring.sent(slot):
            return False
        _, mark = waiting.pop(number)
        if not waiting:
            del self._marks[(ring.name, slot)]
        self._marked[(ring.name, slot)] = number + 1
        ring.mark(slot, mark)
        return True

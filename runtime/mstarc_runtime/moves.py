"""Machines that go from rank to rank, with their values and contexts.

A hop → one message; an arrival → registers, values and collectors written, contexts put down, and
the row at its next step. Where a rank has no pages for what a machine brings, the machine waits
outside until other requests have given theirs back.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mstarc_runtime.engine.travel import Luggage, pick_up, put_down
from mstarc_runtime.frames import Frame, Shape, pack_value, unpack_value
from mstarc_runtime.kvcache.errors import ContextError, OutOfPages
from mstarc_runtime.messages import Moved, Travelling
from mstarc_runtime.plan_api import HopStep
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.transport.mailbox import Parcel

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class Mover:
    """Sends the machines of a rank away, and takes in those that come."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        # Arrivals for whose contexts there are no pages, in the order in which they came.
        self._waiting: list[tuple[int, Parcel]] = []

    @property
    def waiting(self) -> list[int]:
        """The slots of machines that wait for pages."""
        return [slot for slot, _ in self._waiting]

    def leave(self, slot: int, hop: HopStep) -> None:
        """Sends a machine to another rank, with the values that live on."""
        worker, parts = self._worker, self._worker.parts
        worker.courier.flush()
        values: list[tuple[str, Shape]] = []
        frames: list[Frame] = []
        for name in hop.values:
            holder = parts.registers.get(name) or parts.values.get(name) or parts.collectors[name]
            values.append((name, _packed(holder.read(slot), frames)))
        contexts = [
            Travelling(node, luggage.context, _packed(luggage.rows, frames), luggage.position)
            for node, context in hop.contexts
            for luggage in self._picked_up(slot, node, context)
        ]
        live = worker.live[slot]
        streams: dict[str, Ring | Outbox] = {**parts.rings, **parts.outboxes}
        for stream in worker.router.streams_of(hop):
            live.sent[stream] = streams[stream].sent(slot)
        for loop in worker.router.loops_of(hop):
            live.left[loop] = parts.passes_left[loop].get(slot)
        message = Moved(
            slot=slot,
            request=live.request,
            step=hop.step,
            values=tuple(values),
            contexts=tuple(contexts),
            sent=dict(live.sent),
            marks=dict(live.marks),
            left={
                loop: left
                for loop, left in live.left.items()
                if worker.router.is_of_machine(loop, hop)
            },
        )
        worker.mailbox.send(live.where[hop.rank], message, frames)
        if contexts:
            self.pages_freed()

    def _picked_up(self, slot: int, node: str, context: str) -> Iterator[Luggage]:
        """What a slot has here of a context. Where the node is not, as it came."""
        if node in self._worker.parts.kv:
            yield from pick_up(self._worker.parts.kv[node], slot, context)
            return
        live = self._worker.live[slot]
        kept = live.passing
        live.passing = [item for item in kept if not _is_of(item, node, context)]
        yield from (luggage for owner, luggage in kept if _is_of((owner, luggage), node, context))

    def arrive(self, parcel: Parcel, slot: int) -> None:
        """Takes in a machine of a live request, or lets it wait for pages."""
        if self._waiting or not self._take_in(parcel, slot):
            self._waiting.append((slot, parcel))

    def waiting_for(self, node: str) -> Iterator[int]:
        """The slots whose machines wait to bring contexts of a node."""
        for slot, parcel in self._waiting:
            assert isinstance(parcel.message, Moved)
            if any(one.node == node for one in parcel.message.contexts):
                yield slot

    def pages_freed(self) -> None:
        """Rows and machines that wait for pages may try again."""
        self._worker.scheduler.feed()

    def retry(self) -> bool:
        """Takes in machines that wait, the first one first; whether one has come in."""
        did = False
        while self._waiting:
            slot, parcel = self._waiting[0]
            if not self._take_in(parcel, slot):
                break
            if self._waiting and self._waiting[0][0] == slot:
                self._waiting.pop(0)
            did = True
        return did

    def forget(self, slot: int) -> None:
        """Drops what waits here for a request that is over."""
        self._waiting = [(other, parcel) for other, parcel in self._waiting if other != slot]

    def _take_in(self, parcel: Parcel, slot: int) -> bool:
        worker, parts = self._worker, self._worker.parts
        message = parcel.message
        assert isinstance(message, Moved)
        frames = iter(parcel.frames)
        values = [(name, _unpacked(shape, frames)) for name, shape in message.values]
        landed: list[Travelling] = []
        passing: list[tuple[str, Luggage]] = []
        try:
            for one in message.contexts:
                rows = _unpacked(one.shape, frames)
                luggage = Luggage(context=one.context, rows=rows, position=one.position)
                if one.node not in parts.kv:
                    passing.append((one.node, luggage))
                    continue
                put_down(parts.kv[one.node], slot, luggage)
                landed.append(one)
        except OutOfPages as error:
            for one in landed:
                parts.kv[one.node].release_context(slot, one.context)
            return worker.preempter.make_room([slot], error) and self._take_in(parcel, slot)
        except ContextError as error:
            worker.fail(slot, error, None)
            return True
        worker.live[slot].passing += passing
        for name, value in values:
            holder = parts.registers.get(name) or parts.values.get(name) or parts.collectors[name]
            holder.write(slot, value)
        self._count_on(message, slot)
        worker.router.route(slot, message.step)
        return True

    def _count_on(self, message: Moved, slot: int) -> None:
        """What the machine has sent and passed elsewhere counts here too.

        Of branches that ran side by side, each brings what it knew when it set out: counts of items
        only grow, and the loops around the branches have stood still where they meet.
        """
        worker, parts = self._worker, self._worker.parts
        live = worker.live[slot]
        for known, told in ((live.sent, message.sent), (live.marks, message.marks)):
            for name, count in told.items():
                known[name] = max(count, known.get(name, 0))
        for name, count in message.sent.items():
            if name in parts.outboxes:
                parts.outboxes[name].set_sent(slot, max(count, parts.outboxes[name].sent(slot)))
        if worker.router.is_join(message.step):
            return
        live.left.update(message.left)
        for name, left in message.left.items():
            if name in parts.passes_left:
                parts.passes_left[name].set(slot, left)


def _is_of(item: tuple[str, Luggage], node: str, context: str) -> bool:
    """Whether luggage is of a context, or of one of its array."""
    return item[0] == node and item[1].context.partition("[")[0] == context


def _packed(value: object, frames: list[Frame]) -> Shape:
    shape, frame = pack_value(value)
    if frame is not None:
        frames.append(frame)
    return shape


def _unpacked(shape: Shape, frames: Iterator[Frame]) -> Any:
    return unpack_value(shape, None if shape.kind == "plain" else next(frames))

"""Stretches: passes of a loop at which the host looks once, the next launched before it looks.

A step that the plan gives a `stretch` goes on by itself on the device: rows that stop become
padding, the others move on to their next row of the cache (`engine.pass_log`). So the host launches
some passes one behind the other, and reads what they have left when the next are under way: the
device waits for nobody.

How many passes: as many as the plan says and every row may still make, for which streams have room
and, where a pass pulls from one, items. Fewer, so that nobody waits: one where a request is on its
way to the group; and for a row whose stream nobody has read yet, no more than until its reader can.
None is launched ahead while a row that could join the group is ready: requests of which some run
while others wait for items would take turns for ever, at two passes for each.
Where no flag ends the loop, a stretch takes its last pass along; and if these passes leave nothing
to be looked at, their rows go on as soon as they are launched (`foregone`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.flag_columns import COLUMNS, MORE, RAN
from mstarc_runtime.engine.pass_log import PassesRead
from mstarc_runtime.kvcache.errors import ContextError, OutOfPages
from mstarc_runtime.plan_api import Again, DeviceStep
from mstarc_runtime.plan_steps import machine_of
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.streaming.chunks import NEVER
from mstarc_runtime.streaming.counts import Slots
from mstarc_runtime.streaming.ring import Ring

if TYPE_CHECKING:
    from mstarc_runtime.stepping import Stepper
    from mstarc_runtime.worker import Worker

# Stretches of one station under way.
_MOST_AWAY = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Stretch:
    """Passes that were launched and have not landed. Of `growth` it says which contexts grew.

    `is_awaited`: a reader that has read nothing yet can go on behind it. `is_foregone`: what it
    leaves is known, and all its rows leave the loop: nobody waits for it.
    """

    station: Station
    group: Group
    batch: StepBatch
    slots: Slots
    passes: int
    read: PassesRead
    expected: bytes
    grown: list[tuple[str, str]]
    is_awaited: bool
    is_foregone: bool

    @property
    def slot_list(self) -> list[int]:
        return self.read.slot_list

    def has_come(self) -> bool:
        return self.is_foregone or self.read.has_come()

    def wait(self) -> None:
        if not self.is_foregone:
            self.read.wait()

    def flags(self) -> NDArray[np.bool_]:
        """[passes, rows, COLUMNS]"""
        size = self.slots.size
        if not self.is_foregone:
            return self.read.flags[:, :size]
        is_host = self.read.event is None
        assert not is_host or self.read.flags[:, :size].tobytes() == self.expected, (
            f"step {self.station.step.name} leaves flags after all"
        )
        return np.frombuffer(self.expected, np.bool_).reshape(self.passes, size, COLUMNS)


class Stretches:
    """The stretches of one rank."""

    def __init__(self, stepper: "Stepper", worker: "Worker") -> None:
        self._stepper = stepper
        self._worker = worker
        self._before: dict[int, list[Station]] = {}

    def suits(self, batch: StepBatch) -> bool:
        """Whether this batch's passes may follow one another without a look."""
        if batch.log is None:
            return False
        worker, step = self._worker, batch.step
        is_captured = (step.id, batch.bucket) in worker.coverage.captured
        if worker.groups.led_by(step) and (batch.renewed or not is_captured):
            # What begins anew in each pass, and each call of a pass that is no graph, other ranks
            # are told of.
            return False
        return all(context.moving is not None for context in batch.step_contexts.values())

    def begin(self, station: Station, group: Group, batch: StepBatch) -> None:
        """Launches passes of a group that has none under way."""
        self._stepper.foregone.wait(batch.step)
        batch.passes = max(1, self._most(station, group, batch, under_way=0))
        # From here on the device counts.
        for loop in batch.step.passes:
            batch.set_passes(loop, self._worker.parts.passes[loop].numbers(batch.slots))
        if batch.passes > 1 and not self._grow(batch):
            batch.passes = 1
        if batch.passes == 1 and not self._stepper.prepare(station, batch):
            return
        assert batch.log is not None
        batch.log.begin(batch.size)
        self.pull(batch)
        self._launch(station, group, batch)

    def items(self, step: DeviceStep, slots: Slots) -> int:
        """How many passes find something to pull, or the end, for all of `slots`."""
        rings = [self._worker.parts.rings[stream] for stream in step.pulls]
        return min((int(ring.pulls_left(slots).min()) for ring in rings), default=NEVER)

    def pull(self, batch: StepBatch) -> None:
        """The passes pull from where streams stand now."""
        for stream in batch.step.pulls:
            ring = self._worker.parts.rings[stream]
            if batch.asks_for(ring):
                batch.pull_from(ring, *ring.to_pull(batch.slots))

    def pulled(self, step: DeviceStep, slots: Slots, passes: NDArray[np.int64]) -> None:
        """So many passes of each of `slots` have pulled."""
        for stream in step.pulls:
            self._worker.parts.rings[stream].pulled(slots, passes)

    def go_ahead(self, station: Station, step: DeviceStep) -> None:
        """Launches the passes behind those under way, if they can be foreseen."""
        (stretch,) = station.away
        group, batch = stretch.group, stretch.batch
        station.is_away = True
        if (
            group.slots is not stretch.slots
            or group.generation != self._worker.generation
            or station.groups != [group]
            or stretch.is_awaited
            or (station.ready and group.slots.size < station.most)
        ):
            return
        passes = self._most(station, group, batch, under_way=stretch.passes)
        if passes < 1:
            return
        batch.passes = passes
        if not self._grow(batch):
            return
        assert batch.log is not None
        batch.log.go_on(batch)
        for stream in step.pulls:
            ring = self._worker.parts.rings[stream]
            if batch.asks_for(ring):
                batch.pull_up_to(ring, ring.to_pull(batch.slots)[1])
        self._launch(station, group, batch)

    def land(self, stretch: Stretch) -> None:
        """What the passes have left is counted, sent and routed; they are no longer under way."""
        station, group = stretch.station, stretch.group
        assert station.left is not None
        stepper, flags = self._stepper, stretch.flags()
        if stretch.is_foregone:
            stepper.foregone.leave(stretch.batch.step, stretch.read.wait)
        self.pulled(stretch.batch.step, stretch.slots, flags[:, :, RAN].sum(axis=0))
        is_calm = group.calm >= stretch.passes and group.slots is stretch.slots
        if is_calm and flags.tobytes() == stretch.expected:
            station.left.add(group.slots, -stretch.passes)
            has_room = stepper.landing.land_calm(group, stretch.read, stretch.slots, stretch.passes)
            group.passed(stretch.passes, has_room=has_room)
            return
        calm, group.calm = group.calm, 0
        group.left -= stretch.passes
        leaves = self._land_passes(stretch, flags)
        self._take_back(stretch, flags[:, :, RAN].sum(axis=0))
        if leaves:
            # Those under way have left these rows alone; what they counted for them goes, too.
            stepper.finish_station(station)
            stepper.part(station, group, leaves)
        elif group.slots is stretch.slots and stepper.has_room(station, group):
            group.calm = max(0, calm - stretch.passes)

    def _land_passes(self, stretch: Stretch, flags: NDArray[np.bool_]) -> list[int]:
        """Lands pass by pass; whose loop is over."""
        station, then = stretch.station, stretch.batch.step.then
        assert isinstance(then, Again) and station.left is not None
        tested = self._is_tested(stretch.batch.step)
        leaves: list[int] = []
        for at in range(stretch.passes):
            ran = flags[at, :, RAN]
            self._stepper.landing.land(stretch.read.of(at), flags[at], stretch.slots, ran)
            counts = station.left.settle()
            stays = ran & (counts[stretch.slots] > 0)
            if tested:
                stays &= flags[at, :, MORE]
            counts[stretch.slots[stays]] -= 1
            leaves += stretch.slots[ran & ~stays].tolist()
        return leaves

    def _take_back(self, stretch: Stretch, ran: NDArray[np.int64]) -> None:
        """Rows of the cache that were made ready for passes in which a request took no part."""
        short = ran < stretch.passes
        if not short.any():
            return
        for node, context in stretch.grown:
            engine, batch = self._worker.parts.kv[node], stretch.batch
            each = batch.growth[(node, context)][0] if batch.step.rows == "fixed" else 1
            rows = (stretch.passes - ran)[short] * each
            engine.take_back(stretch.slots[short], context, rows)

    def _launch(self, station: Station, group: Group, batch: StepBatch) -> None:
        stepper, log = self._stepper, batch.log
        assert log is not None
        stepper.mark("prepare")
        is_awaited = self._reaches_reader(batch)
        for number in range(batch.passes):
            if not stepper.launch(station, batch, is_first=not number and not station.away):
                return
        stretch = Stretch(
            station=station,
            group=group,
            batch=batch,
            slots=batch.slots,
            passes=batch.passes,
            read=log.read_back(batch, batch.passes),
            expected=batch.expected * batch.passes,
            grown=[context for context in batch.growth if context not in batch.renewed],
            is_awaited=is_awaited,
            # What they leave is known behind them: a size that was not captured may be a new one.
            is_foregone=self._ends_unseen(station, batch),
        )
        station.away.append(stretch)
        station.is_away = len(station.away) == _MOST_AWAY
        stepper.flights.begin_stretch(stretch)
        stepper.mark("read back")

    def _grow(self, batch: StepBatch) -> bool:
        """Makes room for the passes of a stretch, if there is room."""
        if batch.step.prepare is None:
            return True
        try:
            self._stepper.grow(batch)
        except (OutOfPages, ContextError):
            self._stepper.shrink(batch)
            return False
        return True

    def _most(self, station: Station, group: Group, batch: StepBatch, *, under_way: int) -> int:
        """How many passes may follow those under way."""
        step = batch.step
        # `left` is without a pass that a flag may end: where none can, all are known.
        last = 0 if self._is_tested(step) else 1
        most = min(step.stretch, group.left + last - under_way)
        if step.pulls:
            most = min(most, self.items(step, group.slots) - under_way)
        if most > 1 and self._is_joined(station):
            most = 1
        for target, burst in self._stepper.targets(step):
            room = target.least_room(group.slots) - under_way * burst
            most = min(most, room // burst)
            if most > 1 and isinstance(target, Ring):
                unread = target.least_to_first(group.slots) - under_way * burst
                if unread > 0:
                    most = min(most, -(-unread // burst))
        return most

    def _reaches_reader(self, batch: StepBatch) -> bool:
        """Whether a reader that has read nothing yet can go on behind these passes."""
        return any(
            isinstance(target, Ring) and target.least_to_first(batch.slots) <= batch.passes * burst
            for target, burst in self._stepper.targets(batch.step)
        )

    def _ends_unseen(self, station: Station, batch: StepBatch) -> bool:
        """Whether all rows leave the loop behind these passes, and nothing tells it but counts."""
        assert station.left is not None
        left = station.left.settle()[batch.slots]
        passes = batch.passes + sum(stretch.passes for stretch in station.away)
        return (
            not self._is_tested(batch.step)
            and bool((left + 1 == passes).all())
            and self._stepper.foregone.suits(batch.step, batch)
        )

    def _is_tested(self, step: DeviceStep) -> bool:
        """Whether a flag can end the step's loop."""
        assert isinstance(step.then, Again)
        return self._worker.parts.loops[step.then.loop].tested

    def _is_joined(self, station: Station) -> bool:
        """Whether a request is on its way to the station."""
        before = self._before.get(station.step.id)
        if before is None:
            machine = machine_of(station.step.name)
            before = self._before[station.step.id] = [
                other
                for other in self._worker.scheduler.stations
                if other is not station and machine_of(other.step.name) == machine
            ]
        return bool(station.ready) or any(other.ready or other.running for other in before)

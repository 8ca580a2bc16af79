"""Steps of resident groups: requests that come back to a step pass after pass of one loop.

A group stays as it is until something happens: while it is calm, a pass costs the host the same for
any number of rows. Where the step can go on by itself, the host looks once in several passes
(`stretches`); else it looks behind each of them, and prepares the next meanwhile (`ahead`).
"""

from typing import TYPE_CHECKING

import numpy as np

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.host_stepping import Targets
from mstarc_runtime.plan_api import Again, DeviceStep
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.stretches import Stretches

if TYPE_CHECKING:
    from mstarc_runtime.stepping import Stepper
    from mstarc_runtime.worker import Worker


class GroupStepper:
    """Runs the groups of one rank."""

    def __init__(self, stepper: "Stepper", worker: "Worker") -> None:
        self._stepper = stepper
        self._worker = worker
        self.stretches = Stretches(stepper, worker)

    def run(self, station: Station, step: DeviceStep) -> None:
        if station.away:
            self.stretches.go_ahead(station, step)
            return
        stepper, worker = self._stepper, self._worker
        group = (
            station.next_group() if len(station.groups) != 1 or station.ready else station.groups[0]
        )
        batch = group.batch
        if not stepper.ahead.is_for(group):
            # Before the batch is bound to other rows: groups of a size share it.
            stepper.ahead.make_way(step.nodes)
        if (
            group.calm <= 0
            or group.generation != worker.generation
            or batch is None
            or (station.ready and group.slots.size < station.most)
            or self.stretches.items(step, group.slots) < 1
        ):
            stepper.ahead.give_back()
            batch = self._settle(station, step, group)
            if batch is None:
                return
        else:
            # Another group may have had the batch since.
            batch.bind(group.slots)
            batch.allow_all()
        if self.stretches.suits(batch):
            self.stretches.begin(station, group, batch)
            return
        if not stepper.ahead.take(group, batch) and not stepper.prepare(station, batch):
            return
        stepper.mark("prepare")
        if batch.log is not None:
            batch.log.begin(batch.size)
            self.stretches.pull(batch)
        if not stepper.launch(station, batch):
            return
        batch.begin_read_back()
        stepper.ahead.prepare(group, batch)
        stepper.mark("prepare next")
        worker.costs.wait(batch.end_read_back)
        stepper.mark("wait")
        if group.calm > 0 and batch.flags_are_expected():
            assert station.left is not None
            station.left.add(group.slots, -1)
            has_room = stepper.landing.land_calm(group, batch, group.slots)
            group.passed(1, has_room=has_room)
        else:
            stepper.ahead.give_back()
            self._land(station, group, batch)
        self.stretches.pulled(step, batch.slots, np.ones(batch.size, dtype=np.int64))
        stepper.mark("land")

    def _settle(self, station: Station, step: DeviceStep, group: Group) -> StepBatch | None:
        """Lets rows in and out of a group, and finds out how long it will be calm."""
        worker = self._worker
        targets = self._stepper.targets(step)
        if station.ready and group.slots.size < station.most:
            self._admit(station, group, targets)
        stays_here = True
        for target, burst in targets if group.slots.size else ():
            if target.least_room(group.slots) < burst:
                self._set_aside(station, group, targets)
                return self._settle(station, step, group) if group.slots.size else None
            stays_here = stays_here and isinstance(target, Ring)
        if step.pulls and not self._let_wait(station, step, group):
            return None
        if not group.slots.size:
            station.groups.remove(group)
            return None
        slots = group.slots
        batch = group.batch = self._stepper.batch_for(step, slots.size)
        batch.bind(slots)
        assert station.left is not None
        left = station.left.settle()[slots]
        group.left = int(left.min())
        if group.left > 0:
            batch.allow_all()
        else:
            batch.allow(left > 0)
        # What leaves the rank is landed row by row.
        group.calm = group.left if stays_here else 0
        group.generation = worker.generation
        return batch

    def _admit(self, station: Station, group: Group, targets: Targets) -> None:
        """Rows that are ready join a group that has a place for them."""
        rows = group.slots.tolist()
        while station.ready and len(rows) < station.most:
            slot = station.ready.pop(0)
            if all(target.room(slot) >= burst for target, burst in targets):
                rows.append(slot)
            else:
                station.blocked.add(slot)
        if len(rows) != group.slots.size:
            group.become(np.array(rows, dtype=np.int64))

    def _let_wait(self, station: Station, step: DeviceStep, group: Group) -> bool:
        """Rows that have no item to pull leave a group, if there are others; whether there are.

        Rows that all wait stay together: what they wait for mostly comes to all of them at once.
        """
        rings = [self._worker.parts.rings[stream] for stream in step.pulls]
        if not group.slots.size:
            return True
        has_item = np.all([ring.pulls_left(group.slots) > 0 for ring in rings], axis=0)
        if has_item.all():
            return True
        if has_item.any():
            waiting = group.slots[~has_item].tolist()
            group.become(group.slots[has_item])
            for slot in waiting:
                self._worker.router.arrive(slot, station)
            return True
        standings = [ring.wait_item(slot) for slot in group.slots.tolist() for ring in rings]
        assert "waiting" in standings, f"step {step.name}: nobody brings an item"
        station.is_dry = True
        return False

    def _set_aside(self, station: Station, group: Group, targets: Targets) -> None:
        """Rows whose streams are full leave a group until their readers have made room."""
        rows = group.slots.tolist()
        able = [
            slot for slot in rows if all(target.room(slot) >= burst for target, burst in targets)
        ]
        station.blocked.update(set(rows) - set(able))
        group.become(np.array(able, dtype=np.int64))
        if not able:
            station.groups.remove(group)

    def _land(self, station: Station, group: Group, batch: StepBatch) -> None:
        """A step after which somebody leaves, a chunk fires, or the unexpected came true."""
        worker, step = self._worker, batch.step
        then, left = step.then, station.left
        assert isinstance(then, Again) and left is not None
        flags = batch.host_flags().copy()
        slots = batch.slots
        group.calm = 0
        self._stepper.landing.land(batch, flags, slots)
        counts = left.settle()
        stays = counts[slots] > 0
        if worker.parts.loops[then.loop].tested:
            stays &= flags[:, 0]
        counts[slots[stays]] -= 1
        if not stays.all():
            self._stepper.part(station, group, slots[~stays].tolist())

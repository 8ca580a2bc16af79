"""Runs a station: picks its rows, prepares and launches the step, hands the rest to landing.

Two ways in. A *group* of requests that come back pass after pass stays as it is until something
happens: while it is calm, a step costs the host the same for any number of rows. All other steps
take the rows that are ready, run once and let them go.

Not here: which of the ready rows run together, and what they read (`choosing`); what becomes of a
batch that fails (`row_by_row`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mstarc_runtime.ahead import Ahead
from mstarc_runtime.choosing import RowChooser
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.flights import Flight, Flights
from mstarc_runtime.grouping import GroupLost
from mstarc_runtime.host_stepping import HostStepper, Targets
from mstarc_runtime.kvcache.errors import ContextError, OutOfPages
from mstarc_runtime.landing import Landing
from mstarc_runtime.plan_api import Again, DeviceStep, HostStep
from mstarc_runtime.row_by_row import RowByRow
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.ring import Ring
from mstarc_schedule.batching import bucket_of

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class Stepper:
    """Runs steps of one rank."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._batches: dict[tuple[int, int], StepBatch] = {}
        self._sends: dict[int, Targets] = {}
        self._prepared = 0
        self.landing = Landing(worker)
        self._host = HostStepper(worker, self.targets, self.landing)
        self.ahead = Ahead(self, is_used=worker.device.type != "cpu")
        self.flights = Flights(worker.plan.steps, worker.device)
        self.chooser = RowChooser(worker, self.targets)
        self._row_by_row = RowByRow(self, worker)

    def run(self, station: Station) -> None:
        if isinstance(station.step, HostStep):
            self._host.run(station, station.step)
        elif station.is_resident:
            with self.flights.queue(station.step):
                self._run_group(station, station.step)
        else:
            self.ahead.make_way(station.step.nodes)
            self._run_ready(station, station.step)

    # A resident group

    def _run_group(self, station: Station, step: DeviceStep) -> None:
        worker = self._worker
        group = (
            station.next_group() if len(station.groups) != 1 or station.ready else station.groups[0]
        )
        batch = group.batch
        if not self.ahead.is_for(group):
            # Before the batch is bound to other rows: groups of a size share it.
            self.ahead.make_way(step.nodes)
        if (
            group.calm <= 0
            or group.generation != worker.generation
            or batch is None
            or (station.ready and group.slots.size < station.most)
        ):
            self.ahead.give_back()
            batch = self._settle(station, step, group)
            if batch is None:
                return
        else:
            # Another group may have had the batch since.
            batch.bind(group.slots)
            batch.allow_all()
        if not self.ahead.take(group, batch) and not self.prepare(station, batch):
            return
        self._mark("prepare")
        worker.coverage.count(worker, batch)
        try:
            worker.costs.launch(worker.executor, worker.rank, batch)
        except GroupLost:
            raise
        except Exception as error:
            self._row_by_row.run(station, batch, error)
            return
        self._mark("launch")
        batch.begin_read_back()
        self.ahead.prepare(group, batch)
        self._mark("prepare next")
        worker.costs.wait(batch)
        self._mark("wait")
        if group.calm > 0 and batch.flags_are_expected():
            assert station.left is not None
            station.left.add(group.slots, -1)
            has_room = self.landing.land_calm(group, batch)
            group.calm = group.calm - 1 if has_room else 0
        else:
            self.ahead.give_back()
            self._land_group(station, group, batch)
        self._mark("land")

    def _settle(self, station: Station, step: DeviceStep, group: Group) -> StepBatch | None:
        """Lets rows in and out of a group, and finds out how long it will be calm."""
        worker = self._worker
        targets = self.targets(step)
        if station.ready and group.slots.size < station.most:
            self._admit(station, group, targets)
        stays_here = True
        for target, burst in targets if group.slots.size else ():
            if target.least_room(group.slots) < burst:
                self._set_aside(station, group, targets)
                return self._settle(station, step, group) if group.slots.size else None
            stays_here = stays_here and isinstance(target, Ring)
        if not group.slots.size:
            station.groups.remove(group)
            return None
        slots = group.slots
        batch = group.batch = self._batch(step, slots.size)
        batch.bind(slots)
        assert station.left is not None
        left = station.left.settle()[slots]
        fewest = int(left.min())
        if fewest > 0:
            batch.allow_all()
        else:
            batch.allow(left > 0)
        # What leaves the rank is landed row by row.
        group.calm = fewest if stays_here else 0
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

    def _land_group(self, station: Station, group: Group, batch: StepBatch) -> None:
        """A step after which somebody leaves, a chunk fires, or the unexpected came true."""
        worker, step = self._worker, batch.step
        then, left = step.then, station.left
        assert isinstance(then, Again) and left is not None
        flags = batch.host_flags().copy()
        slots = batch.slots
        group.calm = 0
        self.landing.land(batch, flags, slots)
        counts = left.settle()
        stays = counts[slots] > 0
        if worker.parts.loops[then.loop].tested:
            stays &= flags[:, 0]
        counts[slots[stays]] -= 1
        if stays.all():
            return
        # What landed may have ended a request of the group already.
        kept = [slot for slot in slots[stays].tolist() if slot in group.slots]
        leaves = [slot for slot in slots[~stays].tolist() if slot in group.slots]
        group.become(np.array(kept, dtype=np.int64))
        if not kept and group in station.groups:
            station.groups.remove(group)
        for slot in leaves:
            worker.router.leave_step(slot, step)
            worker.router.route(slot, then.otherwise)

    # Steps that run once

    def _run_ready(self, station: Station, step: DeviceStep) -> None:
        rows = self.chooser.choose(station, step)
        if not rows:
            return
        with self.flights.queue(step):
            self._launch_ready(station, step, rows)

    def _launch_ready(self, station: Station, step: DeviceStep, rows: list[int]) -> None:
        batch = self._batch(step, len(rows))
        batch.bind(np.array(rows, dtype=np.int64))
        station.running.update(rows)
        is_beside = self.flights.is_beside(step)
        if is_beside:
            self._hold(step, rows)
        self.chooser.take_chunks(station, step, batch)
        self.chooser.allow(step, batch)
        if not self.prepare(station, batch):
            return
        worker = self._worker
        self._mark("prepare")
        worker.coverage.count(worker, batch)
        try:
            worker.costs.launch(worker.executor, worker.rank, batch)
        except GroupLost:
            raise
        except Exception as error:
            self._row_by_row.run(station, batch, error)
            return
        self._mark("launch")
        if is_beside:
            batch.begin_read_back()
            self.flights.begin(Flight(station=station, step=step, batch=batch))
            return
        self.land_ready(station, step, batch)

    def land_flights(self) -> bool:
        """Lands what the device has done meanwhile; whether there was anything."""
        return self._land_all(self.flights.landing())

    def finish_flights(self, slot: int | None = None) -> bool:
        """Waits for what is under way, or for what a request takes part in, and lands it."""
        return self._land_all(self.flights.finish(slot))

    def _land_all(self, flights: Iterator[Flight]) -> bool:
        landed = False
        for flight in flights:
            self._landed(flight.station, flight.step, flight.batch)
            landed = True
        return landed

    def _hold(self, step: DeviceStep, rows: list[int]) -> None:
        for stream in (*step.reads, *step.pulls):
            for slot in rows:
                self._worker.parts.rings[stream].hold(slot)

    def land_ready(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        """Waits for a step that ran once, and lands it."""
        batch.begin_read_back()
        self._worker.costs.wait(batch)
        self._mark("wait")
        self._landed(station, step, batch)

    def _landed(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        worker = self._worker
        for stream in (*step.reads, *step.pulls):
            for slot in batch.slot_list:
                worker.parts.rings[stream].let_go(slot)
        station.shaped_by = tuple(sorted(batch.stacked_from))
        station.packed_by = tuple(sorted(batch.packed_from))
        flags = batch.host_flags().copy()
        self.landing.land(batch, flags, batch.slots)
        for row, slot in enumerate(batch.slot_list):
            if slot not in station.running:
                continue  # what landed has ended its request
            station.running.discard(slot)
            station.chunks.pop(slot, None)
            worker.router.leave_step(slot, step)
            worker.router.route(slot, step.then, bool(flags[row, 0]))

    # What both share

    def _mark(self, phase: str) -> None:
        """In a trace, a phase of this turn ends here."""
        trace = self._worker.trace
        if trace is not None:
            trace.phase(phase)

    def prepare(self, station: Station, batch: StepBatch) -> bool:
        """Makes room for the step's rows; False if it can't run now, and then nobody has moved."""
        step = batch.step
        self._prepared += 1
        batch.number = self._prepared
        for loop in step.passes:
            batch.set_passes(loop, self._worker.parts.passes[loop].numbers(batch.slots))
        if step.prepare is None:
            return True
        preempter = self._worker.preempter
        if preempter.is_needed and (late := preempter.late(batch)):
            self._starve(station, batch, late)
            return False
        while True:
            try:
                self.grow(batch)
                return True
            except OutOfPages as error:
                self.shrink(batch)
                if not preempter.make_room(batch.slot_list, error):
                    live = self._worker.live
                    youngest = max(batch.slot_list, key=lambda slot: live[slot].request)
                    self._starve(station, batch, [youngest])
                    return False
            except ContextError as error:
                self.shrink(batch)
                self._retreat(station, batch)
                self._worker.fail(error.slot, error, step)
                return False

    def grow(self, batch: StepBatch) -> None:
        """Runs the step's `prepare`. Raises OutOfPages or ContextError; then `shrink`."""
        assert batch.step.prepare is not None
        batch.growth.clear()
        batch.contexts.clear()
        if self._worker.preempter.is_needed:
            self._worker.preempter.bring_back(batch)
        batch.step.prepare(self._worker.rank, batch)

    def _starve(self, station: Station, batch: StepBatch, rows: list[int]) -> None:
        """These wait for pages; the others try again at once."""
        self._retreat(station, batch)
        live = self._worker.live
        for slot in rows:
            station.starve(slot, lambda slot: live[slot].request)

    def _retreat(self, station: Station, batch: StepBatch) -> None:
        """Rows of a step that did not run are ready again, in front of the others."""
        rows = [slot for slot in batch.slot_list if slot in station.running]
        station.running.difference_update(rows)
        station.ready[:0] = rows

    def shrink(self, batch: StepBatch) -> None:
        """Takes back what `grow` has counted."""
        for name in batch.step.nodes:
            engine = self._worker.parts.kv.get(name)
            if isinstance(engine, KVEngine):
                engine.shrink(batch)

    def _batch(self, step: DeviceStep, rows: int) -> StepBatch:
        worker = self._worker
        bucket = bucket_of(
            worker.scheduler.policy,
            step.rows,
            step.buckets,
            rows,
            captured=worker.executor.captures(step),
        )
        return self.batch_of(step, bucket)

    def batch_of(self, step: DeviceStep, bucket: int) -> StepBatch:
        """The batch of a step at one padded size; the same one again, where shapes are static."""
        worker = self._worker
        batch = self._batches.get((step.id, bucket))
        if batch is None:
            batch = StepBatch(
                step,
                bucket,
                padding_slot=worker.plan.slots,
                device=worker.device,
                options=worker.parts.options,
                computed=worker.parts.computed,
            )
            if step.rows == "one" or worker.executor.captures(step):
                self._batches[(step.id, bucket)] = batch
        return batch

    def targets(self, step: DeviceStep | HostStep) -> Targets:
        """The streams that a step sends to, with the most items that it sends a row."""
        made = self._sends.get(step.id)
        if made is None:
            made = [(self._target(stream), burst) for stream, burst in step.sends]
            self._sends[step.id] = made
        return made

    def _target(self, stream: str) -> Ring | Outbox:
        parts = self._worker.parts
        return parts.rings[stream] if stream in parts.rings else parts.outboxes[stream]

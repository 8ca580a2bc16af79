"""Runs a station: picks its rows, prepares and launches the step, hands the rest to landing.

Two ways in. Requests that come back pass after pass are a *group* (`group_stepping`). All other
steps take the rows that are ready, run once and let them go.

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
from mstarc_runtime.engine.pass_log import PassLog
from mstarc_runtime.flights import Flight, Flights
from mstarc_runtime.foregone import Foregone
from mstarc_runtime.group_stepping import GroupStepper
from mstarc_runtime.grouping import GroupLost
from mstarc_runtime.host_stepping import HostStepper, Targets
from mstarc_runtime.kvcache.errors import ContextError, OutOfPages
from mstarc_runtime.landing import Landing
from mstarc_runtime.plan_api import Again, DeviceStep, HostStep
from mstarc_runtime.prompts import PromptReader
from mstarc_runtime.row_by_row import RowByRow
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.stretches import Stretch
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
        self.host = HostStepper(worker, self.targets, self.landing)
        self.ahead = Ahead(self, is_used=worker.device.type != "cpu")
        self.flights = Flights(
            worker.plan.steps,
            worker.device,
            lambda: worker.generation + worker.arrivals,
            worker.groups.leads.keys(),
        )
        self.groups = GroupStepper(self, worker)
        self.foregone = Foregone(worker)
        self.prompts = PromptReader(worker)
        self.chooser = RowChooser(worker, self.targets, self.prompts)
        self._row_by_row = RowByRow(self, worker)

    def run(self, station: Station) -> None:
        if isinstance(station.step, HostStep):
            self.host.run(station, station.step)
        elif station.is_resident:
            with self.flights.queue(station.step):
                self.groups.run(station, station.step)
        else:
            self.ahead.make_way(station.step.nodes)
            self._run_ready(station, station.step)

    def part(self, station: Station, group: Group, leaves: list[int]) -> None:
        """Rows of a group whose loop is over go on."""
        assert isinstance(station.step.then, Again)
        # What landed may have ended a request of the group already.
        leaves = [slot for slot in leaves if slot in group.slots]
        kept = [slot for slot in group.slots.tolist() if slot not in leaves]
        group.become(np.array(kept, dtype=np.int64))
        if not kept and group in station.groups:
            station.groups.remove(group)
        router = self._worker.router
        for slot in leaves:
            router.leave_step(slot, station.step)
            router.route(slot, station.step.then.otherwise)

    # Steps that run once

    def _run_ready(self, station: Station, step: DeviceStep) -> None:
        # Values whose shapes are looked at are brought to the device, and read there behind that.
        with self.flights.queue(step):
            rows = self.chooser.choose(station, step)
            if rows:
                self._launch_ready(station, step, rows)

    def _launch_ready(self, station: Station, step: DeviceStep, rows: list[int]) -> None:
        batch = self.batch_for(step, len(rows))
        batch.bind(np.array(rows, dtype=np.int64))
        station.running.update(rows)
        is_beside = self.flights.is_beside(step)
        if is_beside:
            self._hold(step, rows)
        self.chooser.take_chunks(station, step, batch)
        self.chooser.allow(step, batch)
        self.prompts.cut(station, step, batch)
        self.foregone.wait(step)
        if not self.prepare(station, batch):
            return
        self.mark("prepare")
        if not self.launch(station, batch):
            return
        if is_beside:
            batch.begin_read_back()
            self.flights.begin(Flight(station=station, step=step, batch=batch))
            return
        if self.foregone.suits(step, batch):
            self.foregone.begin(step, batch)
            self._landed(station, step, batch)
            return
        self.land_ready(station, step, batch)

    def launch(self, station: Station, batch: StepBatch, *, is_first: bool = True) -> bool:
        """Runs a batch that is prepared; False if it failed, and then its rows are taken care of.

        `is_first`: nothing was launched before it that has not landed.
        """
        worker = self._worker
        worker.coverage.count(worker, batch)
        try:
            worker.costs.launch(worker.executor, worker.rank, batch)
        except GroupLost:
            raise
        except Exception as error:
            if batch.told:
                raise worker.groups.left_alone(batch.step, error) from error
            if is_first:
                self._row_by_row.run(station, batch, error)
                return False
            # Passes before it have changed what rows hold: nobody of them can run it again.
            self.finish_station(station)
            self.shrink(batch)
            for slot in batch.slot_list:
                worker.fail(slot, error, batch.step)
            return False
        self.mark("launch")
        return True

    def land_flights(self) -> bool:
        """Lands what the device has done meanwhile; whether there was anything."""
        return self._land_all(self.flights.landing())

    def finish_flights(self, slot: int | None = None) -> bool:
        """Waits for what is under way, or for what a request takes part in, and lands it."""
        return self._land_all(self.flights.finish(slot))

    def finish_station(self, station: Station) -> None:
        """Waits for what is under way of one station, and lands it."""
        self._land_all(self.flights.finish(station=station))

    def await_flights(self) -> None:
        """Waits a moment for any of those under way, and lands what the device has done."""
        worker = self._worker
        if worker.groups.serves:
            # Another rank's device waits for this one as soon as it is told of a call.
            worker.costs.wait(lambda: self.flights.await_any(worker.mailbox.has_parcel))
        else:
            worker.costs.wait(self.flights.await_any)
        self.land_flights()

    def _land_all(self, flights: Iterator[Flight | Stretch]) -> bool:
        landed = False
        for flight in flights:
            if isinstance(flight, Stretch):
                self.groups.stretches.land(flight)
                self.mark("land")
            else:
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
        self._worker.costs.wait(batch.end_read_back)
        self.mark("wait")
        self._landed(station, step, batch)

    def _landed(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        self._land_rows(station, step, batch)
        if not self._is_static(step):
            batch.rest()

    def _land_rows(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        worker = self._worker
        for stream in (*step.reads, *step.pulls):
            for slot in batch.slot_list:
                worker.parts.rings[stream].let_go(slot)
        station.shaped_by = tuple(sorted(batch.stacked_from))
        station.packed_by = tuple(sorted(batch.packed_from))
        if step.pieces is not None and self.prompts.landed(station, step, batch):
            return
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

    def mark(self, phase: str) -> None:
        """In a trace, a phase of this turn ends here."""
        trace = self._worker.trace
        if trace is not None:
            trace.phase(phase)

    def prepare(self, station: Station, batch: StepBatch) -> bool:
        """Makes room for the step's rows; False if it can't run now, and then nobody has moved."""
        step = batch.step
        batch.passes = 1
        for loop in step.passes:
            batch.set_passes(loop, self._worker.parts.passes[loop].numbers(batch.slots))
        self._number(batch)
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
        self._number(batch)
        batch.growth.clear()
        batch.contexts.clear()
        if self._worker.preempter.is_needed:
            self._worker.preempter.bring_back(batch)
        batch.step.prepare(self._worker.rank, batch)

    def _number(self, batch: StepBatch) -> None:
        """Those who follow a batch know by its number that it is made ready anew."""
        self._prepared += 1
        batch.number = self._prepared

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

    def batch_for(self, step: DeviceStep, rows: int) -> StepBatch:
        """The batch of a step for so many rows."""
        worker = self._worker
        bucket = bucket_of(
            worker.scheduler.policy,
            step.rows,
            worker.later.ready(step),
            rows,
            captured=worker.executor.captures(step),
        )
        return self.batch_of(step, bucket)

    def batch_of(self, step: DeviceStep, bucket: int) -> StepBatch:
        """The batch of a step at one padded size; the same one again, except of steps that read
        chunks of any length."""
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
                log=self._log(step, bucket),
            )
            if self._is_static(step) or not (step.reads or step.pulls):
                self._batches[(step.id, bucket)] = batch
        return batch

    def _is_static(self, step: DeviceStep) -> bool:
        """Whether all runs of a size have the same shapes."""
        return step.rows in ("one", "fixed") or self._worker.executor.captures(step)

    def _log(self, step: DeviceStep, bucket: int) -> PassLog | None:
        """For a step whose passes run in stretches."""
        worker, then = self._worker, step.then
        if not goes_on(worker, step):
            return None
        assert isinstance(then, Again) and then.first == step.id, step.name
        return PassLog(
            bucket=bucket,
            # A body that is to be captured runs twice in a row.
            most=max(step.stretch, 2),
            tested=worker.parts.loops[then.loop].tested,
            device=worker.device,
        )

    def targets(self, step: DeviceStep | HostStep) -> Targets:
        """The streams that a step sends to, with the most items that it sends a row."""
        made = self._sends.get(step.id)
        if made is None:
            made = [(self._target(stream), burst) for stream, burst in step.sends]
            self._sends[step.id] = made
        return made

    def has_room(self, station: Station, group: Group) -> bool:
        """Whether the streams of each of a group have room for what a pass may send."""
        return all(
            target.least_room(group.slots) >= burst for target, burst in self.targets(station.step)
        )

    def _target(self, stream: str) -> Ring | Outbox:
        parts = self._worker.parts
        return parts.rings[stream] if stream in parts.rings else parts.outboxes[stream]


def goes_on(worker: "Worker", step: DeviceStep) -> bool:
    """Whether a step's passes follow one another on the device.

    Where other ranks hold parts of what it calls: if they record its calls, and it calls no other
    node, so that they know as much of its rows as this one.
    """
    if not step.stretch or not worker.executor.captures(step):
        return False
    is_led = bool(worker.groups.led_by(step))
    return not is_led or (worker.groups.can_capture(step) and len(step.nodes) == 1)

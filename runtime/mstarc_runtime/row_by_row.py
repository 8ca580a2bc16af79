"""A batch that failed is run again row by row, so that only the request that fails ends."""

from typing import TYPE_CHECKING

import numpy as np

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import body_of
from mstarc_runtime.grouping import GroupLost
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.scheduler import Station

if TYPE_CHECKING:
    from mstarc_runtime.stepping import Stepper
    from mstarc_runtime.worker import Worker


class RowByRow:
    """Runs the rows of a batch that failed, each alone."""

    def __init__(self, stepper: "Stepper", worker: "Worker") -> None:
        self._stepper = stepper
        self._worker = worker

    def run(self, station: Station, batch: StepBatch, error: Exception) -> None:
        """A run failed: takes back what it did, and finds out whose row failed."""
        worker, stepper, step = self._worker, self._stepper, batch.step
        slots = batch.slots
        stepper.shrink(batch)
        self._restore(step, batch)
        group = next((g for g in station.groups if g.slots is slots), None)
        if group is not None:
            station.groups.remove(group)
        if len(slots) == 1:
            station.running.discard(int(slots[0]))
            worker.fail(int(slots[0]), error, step)
            return
        for slot in slots.tolist():
            if slot not in worker.live or worker.live[slot].is_ending:
                continue
            alone = StepBatch(
                step,
                batch.bucket if step.rows == "one" else 1,
                padding_slot=worker.plan.slots,
                device=worker.device,
                options=worker.parts.options,
                computed=worker.parts.computed,
            )
            alone.bind(np.array([slot], dtype=np.int64))
            station.running.add(slot)
            stepper.chooser.take_chunks(station, step, alone)
            stepper.chooser.allow(step, alone)
            stepper.prompts.cut(station, step, alone)
            if not stepper.prepare(station, alone):
                continue
            try:
                alone.begin()
                body_of(alone)(worker.rank, alone)
                alone.end()
            except GroupLost:
                raise
            except Exception as own:
                stepper.shrink(alone)
                self._restore(step, alone)
                station.running.discard(slot)
                worker.fail(slot, own, step)
                continue
            stepper.land_ready(station, step, alone)

    def _restore(self, step: DeviceStep, batch: StepBatch) -> None:
        """Device-side counts are again what has landed."""
        parts = self._worker.parts
        for stream, _ in step.sends:
            target = parts.rings[stream] if stream in parts.rings else parts.outboxes[stream]
            target.restore_heads(batch.slots)
        for collector in parts.collectors.values():
            collector.restore_heads(batch.slots)

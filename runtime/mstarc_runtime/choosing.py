"""Which of the ready rows of a station run together, what they read, and whether they may go on.

Rows of a step stand side by side as far as their shapes are alike, or as many as a packed step has
room for. Not here: the policy itself (`mstarc_schedule`), rows that stay a group (`stepping`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.host_stepping import Targets
from mstarc_runtime.plan_api import Again, DeviceStep
from mstarc_runtime.prompts import PromptReader
from mstarc_runtime.scheduler import Station
from mstarc_runtime.streaming.chunks import Chunk
from mstarc_runtime.streaming.ring import Ring
from mstarc_schedule.batching import take_alike, take_packed

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class RowChooser:
    """Takes rows and their chunks; `targets` are the streams that a step sends to."""

    def __init__(
        self, worker: "Worker", targets: Callable[[DeviceStep], Targets], prompts: PromptReader
    ) -> None:
        self._worker = worker
        self._targets = targets
        self.prompts = prompts

    def choose(self, station: Station, step: DeviceStep) -> list[int]:
        """Takes from the ready rows those that run together; rows without room are set aside."""
        targets = self._targets(step)
        able = []
        for slot in station.ready:
            if all(target.room(slot) >= burst for target, burst in targets):
                able.append(slot)
            else:
                station.blocked.add(slot)
        if step.pieces is not None:
            rows = self.prompts.choose(station, step, able)
        else:
            rows = able[: self._together(station, step, able)]
        if station.most > 1 and step.rows == "shaped" and rows:
            shapes = [self._shape(station, step, slot) for slot in able]
            most = station.most if station.shaped_by is not None else 1
            rows = [able[index] for index in take_alike(shapes, most)]
        station.ready = [slot for slot in able if slot not in rows]
        return rows

    def _together(self, station: Station, step: DeviceStep, able: list[int]) -> int:
        if station.most == 1 or step.rows != "packed":
            return station.most
        if station.packed_by is None:
            return 1
        values = self._worker.parts.values
        names = [name for name in station.packed_by if name in values]
        tokens = [sum(values[name].shape(slot)[0] for name in names) for slot in able]
        return take_packed(self._worker.scheduler.policy, tokens, station.most)

    def take_chunks(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        """What each row reads of streams, and pulls; kept until the step has run."""
        rings = self._worker.parts.rings
        for stream in step.reads:
            ring = rings[stream]
            batch.set_chunks(ring, [self._chunk(station, ring, slot) for slot in batch.slot_list])
        for stream in step.pulls:
            ring = rings[stream]
            batch.set_pulled(ring, [self._item(station, ring, slot) for slot in batch.slot_list])

    def allow(self, step: DeviceStep, batch: StepBatch) -> None:
        """Which rows may begin, or repeat, the loop behind the step."""
        then = step.then
        if isinstance(then, int):
            batch.allow_all()
            return
        worker = self._worker
        if isinstance(then, Again):
            batch.allow(worker.parts.passes_left[then.loop].settle()[batch.slots] > 0)
            return
        bound = worker.parts.loops[then.loop].bound
        bounds = [worker.live[slot].bounds[bound] for slot in batch.slot_list]
        batch.allow(np.array(bounds, dtype=np.int64) > 0)

    def _shape(self, station: Station, step: DeviceStep, slot: int) -> tuple[object, ...]:
        parts = self._worker.parts
        values = [parts.values[name].shape(slot) for name in station.shaped_by or ()]
        held = station.chunks.get(slot)
        chunks = [
            parts.rings[stream].shape_of(chunk)
            if held and (chunk := held.get(stream))
            else parts.rings[stream].next_shape(slot)
            for stream in step.reads
        ]
        return (*values, *chunks)

    def _chunk(self, station: Station, ring: Ring, slot: int) -> Chunk:
        held = station.chunks.setdefault(slot, {})
        chunk = held.get(ring.name)
        if chunk is None:
            chunk = held[ring.name] = ring.take(slot)
        return chunk

    def _item(self, station: Station, ring: Ring, slot: int) -> Chunk | None:
        held = station.chunks.setdefault(slot, {})
        if ring.name not in held:
            held[ring.name] = ring.pull(slot)
        return held[ring.name]

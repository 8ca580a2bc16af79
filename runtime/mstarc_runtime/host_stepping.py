"""Runs host steps: a job a request, in the host pool, beside the device.

All that are ready are dispatched at once: requests that came together are together afterwards too,
and a prompt's step reads them all.

What the step reads of streams is copied out when it is dispatched; what it emits and sends lands
when its job is done. A job whose request has ended meanwhile is run to its end and ignored.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mstarc_runtime.engine.job import Job
from mstarc_runtime.landing import Landing
from mstarc_runtime.plan_api import DeviceStep, HostStep
from mstarc_runtime.scheduler import Station
from mstarc_runtime.streaming.outbox import Outbox
from mstarc_runtime.streaming.ring import Ring

if TYPE_CHECKING:
    from mstarc_runtime.live import LiveRequest
    from mstarc_runtime.worker import Worker

Targets = list[tuple[Ring | Outbox, int]]


class HostStepper:
    """Dispatches host steps of one rank. `targets` gives the streams that a step sends to."""

    def __init__(
        self,
        worker: "Worker",
        targets: Callable[[DeviceStep | HostStep], Targets],
        landing: Landing,
    ) -> None:
        self._worker = worker
        self._targets = targets
        self._landing = landing

    def run(self, station: Station, step: HostStep) -> None:
        ready, station.ready = station.ready, []
        for slot in ready:
            self._dispatch(station, step, slot)

    def _dispatch(self, station: Station, step: HostStep, slot: int) -> None:
        worker = self._worker
        targets = self._targets(step)
        if any(target.room(slot) < burst for target, burst in targets):
            station.blocked.add(slot)
            return
        live = worker.live[slot]
        job = Job(slot=slot, options=live.options, read_input=live.inputs.get)
        for stream in step.reads:
            ring = worker.parts.rings[stream]
            job.chunks[stream] = ring.items_of(slot, ring.take(slot))
        live.jobs += 1
        station.running.add(slot)
        node = worker.parts.host[step.node]

        def work() -> int:
            begun = time.perf_counter_ns()
            with node.using(slot):
                step.run(worker.rank, job)
            return time.perf_counter_ns() - begun

        worker.pool.submit(work, self._done(station, step, live, job))

    def _done(
        self, station: Station, step: HostStep, live: "LiveRequest", job: Job
    ) -> Callable[[Any, BaseException | None], None]:
        worker = self._worker

        def done(spent_ns: Any, error: BaseException | None) -> None:
            worker.generation += 1
            worker.costs.job(step.id, spent_ns or 0)
            if not worker.job_ended(live):
                return
            station.running.discard(live.slot)
            if error is not None:
                worker.fail(live.slot, error, step)
                return
            try:
                self._landing.land_job(job)
            except Exception as own:
                worker.fail(live.slot, own, step)
                return
            worker.router.leave_step(live.slot, step)
            worker.router.route(live.slot, step.then)

        return done

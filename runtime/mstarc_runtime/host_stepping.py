"""Runs host steps: a job a request, in the host pool, beside the device.

All that are ready are dispatched at once, and go on together (see `cohorts`): a prompt's step reads
them all.

What the step reads of streams is copied out when it is dispatched; what it emits and sends lands
when its job is done. A job whose request has ended meanwhile is run to its end and ignored.

Host steps that follow one another are one job, as far as the rank has nothing to do between them:
a step that has emitted nothing, and one behind it that reads and sends nothing. So a request goes
to the pool and back once. Where it is alone on its rank, and its code has taken less time so far
than two threads need to wake one another, it does not go there at all.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mstarc_runtime.cohorts import Cohort, Cohorts
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

# Host code that takes no longer is run where it is dispatched, if nobody waits meanwhile.
_QUICK_NS = 500_000
_NEVER_NS = 1 << 62


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
        self._steps = {step.id: step for step in worker.plan.steps if isinstance(step, HostStep)}
        # By a job's first step.
        self._chains: dict[int, list[HostStep]] = {}
        self.cohorts = Cohorts(worker.pool.now_ns)

    def run(self, station: Station, step: HostStep) -> None:
        ready, station.ready = station.ready, []
        targets = self._targets(step)
        able = []
        for slot in ready:
            if any(target.room(slot) < burst for target, burst in targets):
                station.blocked.add(slot)
            else:
                able.append(slot)
        cohort = Cohort(size=len(able), left=len(able))
        for slot in able:
            self._dispatch(station, step, slot, cohort)

    def _dispatch(self, station: Station, step: HostStep, slot: int, cohort: Cohort) -> None:
        worker = self._worker
        live = worker.live[slot]
        job = Job(slot=slot, options=live.options, read_input=live.inputs.get)
        for stream in step.reads:
            ring = worker.parts.rings[stream]
            job.chunks[stream] = ring.items_of(slot, ring.take(slot))
        live.jobs += 1
        station.running.add(slot)
        # Of a request that is traced each step is seen by itself.
        steps = [step] if live.visits is not None else self._together(step)
        ran: list[tuple[HostStep, int]] = []

        def work() -> None:
            for one in steps:
                begun = time.perf_counter_ns()
                ran.append((one, 0))
                with worker.parts.host[one.node].using(slot):
                    one.run(worker.rank, job)
                ran[-1] = (one, time.perf_counter_ns() - begun)
                if live.is_ending:
                    return

        done = self._done(station, live, job, ran, cohort)
        worker.pool.submit(work, done, here=self._is_quick(steps))

    def _is_quick(self, steps: Sequence[HostStep]) -> bool:
        """Whether host code is likely to be over at once, and holds nobody up."""
        worker = self._worker
        if len(worker.live) > 1 or worker.scheduler.rows() > 1:
            return False
        spent = [worker.costs.expected_job_ns(step.id) for step in steps]
        return sum(_NEVER_NS if each is None else each for each in spent) <= _QUICK_NS

    def _together(self, step: HostStep) -> list[HostStep]:
        """The step, and those behind it that are of the same job."""
        made = self._chains.get(step.id)
        if made is None:
            made = self._chains[step.id] = [step]
            while (behind := self._behind(made[-1])) is not None and behind not in made:
                made.append(behind)
        return made

    def _behind(self, step: HostStep) -> HostStep | None:
        if step.emits or step.sends or not isinstance(step.then, int):
            return None
        behind = self._steps.get(step.then)
        return None if behind is None or behind.reads or behind.sends else behind

    def _done(
        self,
        station: Station,
        live: "LiveRequest",
        job: Job,
        ran: list[tuple[HostStep, int]],
        cohort: Cohort,
    ) -> Callable[[Any, BaseException | None], None]:
        worker = self._worker

        def landed(error: BaseException | None) -> bool:
            """Whether the request goes on."""
            if not worker.job_ended(live):
                return False
            step = ran[-1][0]
            if error is None:
                try:
                    self._landing.land_job(job)
                except Exception as own:
                    error = own
            if error is None:
                return True
            station.running.discard(live.slot)
            worker.fail(live.slot, error, step)
            return False

        def go() -> None:
            if worker.live.get(live.slot) is not live or live.is_ending:
                return
            worker.generation += 1
            step = ran[-1][0]
            station.running.discard(live.slot)
            worker.router.leave_step(live.slot, step)
            worker.router.route(live.slot, step.then)

        def done(_: Any, error: BaseException | None) -> None:
            worker.generation += 1
            for step, spent_ns in ran:
                worker.costs.job(step.id, spent_ns)
            goes_on = landed(error)
            self.cohorts.ended(cohort, go if goes_on else None, sum(ns for _, ns in ran))

        return done

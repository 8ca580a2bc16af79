"""What a rank's steps cost its host: counted for each turn that ran one, for metrics and `top`.

Host time is a turn's time without what the device did in it: on a CPU the launch itself is the
device's work, elsewhere it is what the host waited for. Beside it, how many requests ran together,
and how long host code took in its pool.
"""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.engine.late_kernels import LATE_KERNELS
from mstarc_runtime.plan_api import DeviceStep, HostStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.scheduler import Station
    from mstarc_runtime.worker import Worker


@dataclass(slots=True, kw_only=True)
class StepCost:
    """Of one step, since the start. `sizes` counts its runs by the requests in them."""

    host_ns: int = 0
    job_ns: int = 0
    last_job_ns: int = 0
    sizes: dict[int, int] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return sum(self.sizes.values())

    @property
    def requests(self) -> int:
        """In all of its runs."""
        return sum(size * runs for size, runs in self.sizes.items())


class StepCosts:
    """The costs of one rank, by step id. `is_device_here`: a launch is the device's work.

    Called several times a step: it does as little as it can.
    """

    __slots__ = ("_away_ns", "_begun", "_is_device_here", "by_step")

    def __init__(self, *, is_device_here: bool) -> None:
        self.by_step: dict[int, StepCost] = {}
        self._is_device_here = is_device_here
        self._begun = self._away_ns = 0

    def begin(self) -> None:
        """A turn begins."""
        self._away_ns = 0
        self._begun = perf_counter_ns()

    def end(self, step: int) -> None:
        """The turn that ran a step is over."""
        spent = perf_counter_ns() - self._begun - self._away_ns
        self._of(step).host_ns += spent

    def launch(self, executor: Executor, rank: Rank, batch: StepBatch) -> None:
        """Runs a batch."""
        sizes, size = self._of(batch.step.id).sizes, batch.size
        sizes[size] = sizes.get(size, 0) + 1
        if not self._is_device_here:
            executor.run(rank, batch)
            return
        begun = perf_counter_ns()
        executor.run(rank, batch)
        self._away_ns += perf_counter_ns() - begun

    def wait(self, wait: Callable[[], object]) -> None:
        """Waits for the device."""
        begun = perf_counter_ns()
        wait()
        self._away_ns += perf_counter_ns() - begun

    def job(self, step: int, spent_ns: int) -> None:
        """Host code of one request has ended."""
        cost = self._of(step)
        cost.sizes[1] = cost.sizes.get(1, 0) + 1
        cost.job_ns += spent_ns
        cost.last_job_ns = spent_ns

    def expected_job_ns(self, step: int) -> int | None:
        """How long host code of the step is likely to take, none where it has not run yet."""
        cost = self.by_step.get(step)
        if cost is None or not cost.sizes.get(1):
            return None
        return max(cost.last_job_ns, cost.job_ns // cost.sizes[1])

    def _of(self, step: int) -> StepCost:
        cost = self.by_step.get(step)
        if cost is None:
            cost = self.by_step[step] = StepCost()
        return cost


def pieces_held() -> int:
    """How many pieces of memory Python's objects hold: more and more only where something is kept.

    What nobody has any more is collected first. That takes under a millisecond, since all that a
    start leaves is frozen.
    """
    gc.collect()
    return sys.getallocatedblocks()


def now_of(worker: "Worker") -> dict[str, Any]:
    """What a rank has done so far and where its requests are, for whoever watches."""
    moves = worker.preempter.moves
    prompts = worker.stepper.prompts.counts().values()
    levels = [engine.cache.levels for engine in worker.parts.kv.values()]
    return {
        "blocks": pieces_held(),
        "steps": {
            station.step.name: _step(station.step, worker.costs.by_step.get(station.step.id))
            for station in worker.scheduler.stations
        },
        "rows": {
            station.step.name: rows
            for station in worker.scheduler.stations
            if (rows := _rows(worker, station))
        },
        "counts": {
            "kv_preemptions": moves.set_aside,
            "kv_pages_set_aside": moves.pages_out,
            "kv_pages_brought_back": moves.pages_in,
            "kv_evictions": sum(counts.given_up for counts in prompts),
            "prompt_rows": sum(counts.asked_rows for counts in prompts),
            "prompt_rows_shared": sum(counts.found_rows for counts in prompts),
            "rows_attended_together": sum(counts.attended_rows for counts in levels),
            "rows_read_together": sum(counts.read_rows for counts in levels),
            **LATE_KERNELS.counts(),
        },
        "kernels": dict(LATE_KERNELS.by_name),
    }


def _step(step: DeviceStep | HostStep, cost: StepCost | None) -> Mapping[str, Any]:
    nodes: Sequence[str] = (step.node,) if isinstance(step, HostStep) else step.nodes
    found = cost or StepCost()
    return {
        "nodes": list(nodes),
        "is_host": isinstance(step, HostStep),
        "runs": found.runs,
        "requests": found.requests,
        "host_us": found.host_ns // 1000,
        "job_us": found.job_ns // 1000,
        "sizes": {str(size): runs for size, runs in sorted(found.sizes.items())},
    }


def _rows(worker: "Worker", station: "Station") -> dict[str, list[int]]:
    """Numbers of requests by how they stand at a station."""
    grouped = [slot for group in station.groups for slot in group.slots.tolist()]
    found = {
        "runs": [*station.running, *grouped],
        "ready": station.ready,
        "waits": [*station.waiting, *station.blocked],
        "starved": station.starved,
    }
    live = worker.live
    return {
        how: [live[slot].request for slot in slots if slot in live]
        for how, slots in found.items()
        if slots
    }

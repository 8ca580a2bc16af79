"""What a rank's steps cost its host: counted for each turn that ran one, for metrics and `top`.

Host time is a turn's time without what the device did in it: on a CPU the launch itself is the
device's work, elsewhere it is what the host waited for. Beside it, how many requests ran together,
and how long host code took in its pool.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.plan_api import DeviceStep, HostStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.scheduler import Station
    from mstarc_runtime.worker import Worker


@dataclass(slots=True, kw_only=True)
class StepCost:
    """Of one step, since the start. `sizes` counts its runs by the requests in them."""

    runs: int = 0
    requests: int = 0
    host_ns: int = 0
    job_ns: int = 0
    sizes: dict[int, int] = field(default_factory=dict)


class StepCosts:
    """The costs of one rank, by step id. `is_device_here`: a launch is the device's work."""

    def __init__(self, *, is_device_here: bool) -> None:
        self.by_step: dict[int, StepCost] = {}
        self._is_device_here = is_device_here
        self._away_ns = self._away_before = 0
        self._begun = 0

    def begin(self) -> None:
        """A turn begins."""
        self._away_before = self._away_ns
        self._begun = time.perf_counter_ns()

    def end(self, step: int) -> None:
        """The turn that ran a step is over."""
        spent = time.perf_counter_ns() - self._begun - (self._away_ns - self._away_before)
        self._of(step).host_ns += spent

    def launch(self, executor: Executor, rank: Rank, batch: StepBatch) -> None:
        """Runs a batch."""
        cost = self._of(batch.step.id)
        cost.runs += 1
        size = batch.size
        cost.requests += size
        cost.sizes[size] = cost.sizes.get(size, 0) + 1
        if not self._is_device_here:
            executor.run(rank, batch)
            return
        begun = time.perf_counter_ns()
        executor.run(rank, batch)
        self._away_ns += time.perf_counter_ns() - begun

    def wait(self, wait: Callable[[], object]) -> None:
        """Waits for the device."""
        begun = time.perf_counter_ns()
        wait()
        self._away_ns += time.perf_counter_ns() - begun

    def job(self, step: int, spent_ns: int) -> None:
        """Host code of one request has ended."""
        cost = self._of(step)
        cost.runs += 1
        cost.requests += 1
        cost.sizes[1] = cost.sizes.get(1, 0) + 1
        cost.job_ns += spent_ns

    def _of(self, step: int) -> StepCost:
        cost = self.by_step.get(step)
        if cost is None:
            cost = self.by_step[step] = StepCost()
        return cost


def now_of(worker: "Worker") -> dict[str, Any]:
    """What a rank has done so far and where its requests are, for whoever watches."""
    moves = worker.preempter.moves
    return {
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
        },
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

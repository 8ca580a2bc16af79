"""Runs the steps of capture regions as CUDA graphs: one launch for all their calls.

`capture` goes through the regions at start-up: an eager run warms up each size, then its body is
captured once, into memory that all graphs of a machine share. A batch's buffers keep their
addresses, so a replay reads what the host has put there and leaves flags and outputs where the
first run did. Steps outside the regions run as they are written; how often a region's step did,
because its size was not captured, is counted in `eager_runs`.
"""

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import run_body
from mstarc_runtime.engine.led_graphs import LedGraphs
from mstarc_runtime.engine.regions import is_capturable, region_steps, rows_to_capture
from mstarc_runtime.plan_api import DeviceStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

_WARM_UPS = 2


class CudaGraphExecutor:
    """Replays what was captured, runs the rest."""

    def __init__(self) -> None:
        self.eager_runs: Counter[tuple[str, int]] = Counter()
        self._graphs: dict[tuple[int, int], Any] = {}
        self._led = LedGraphs()
        # By queue: regions that are replayed on one share memory; others may run at the same time.
        self._pools: dict[Any, Any] = {}
        # Captured there: what libraries keep for each stream must not be that of another queue.
        self._streams: dict[Any, Any] = {}
        self._first_runs_s = 0.0

    def captures(self, step: DeviceStep) -> bool:
        return is_capturable(step)

    def capture(self, worker: "Worker") -> int:
        """Captures every region at every size; how many graphs there are."""
        self._first_runs_s = 0.0
        for step, bucket in region_steps(worker):
            queue = worker.stepper.flights.stream_of(step)
            with rows_to_capture(worker, step, bucket) as batch:
                self._graphs[(step.id, bucket)] = self._captured(worker, batch, queue)
        spent = worker.start_s.get("first runs", 0.0)
        worker.start_s["first runs"] = spent + self._first_runs_s
        return len(self._graphs)

    def run(self, rank: Rank, batch: StepBatch) -> None:
        graph = self._graphs.get((batch.step.id, batch.bucket))
        if graph is not None:
            self._led.tell(batch)
            graph.replay()
            batch.told = max(0, batch.told - 1)
            return
        if is_capturable(batch.step):
            self.eager_runs[(batch.step.name, batch.bucket)] += 1
        run_body(rank, batch)

    def _captured(
        self, worker: "Worker", batch: StepBatch, queue: "torch.cuda.Stream | None"
    ) -> Any:
        if queue not in self._pools:
            self._pools[queue] = torch.cuda.graph_pool_handle()
            # The main queue is the default stream, and nothing can be captured there.
            self._streams[queue] = queue or torch.cuda.Stream()
        pool, side = self._pools[queue], self._streams[queue]
        began = time.monotonic()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                run_body(worker.rank, batch)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self._first_runs_s += time.monotonic() - began
        graph = torch.cuda.CUDAGraph()
        # A library's thread that looks after other ranks may go on meanwhile.
        mode = "thread_local" if worker.groups.leads or worker.groups.serves else "global"
        with (
            self._led.recording(worker, batch),
            torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode=mode),
        ):
            run_body(worker.rank, batch)
        return graph

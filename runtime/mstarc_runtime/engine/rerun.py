"""Runs the steps of capture regions as on a GPU, where a graph is the body, run again.

For tests and measurements of ranks that hold parts of a node: what is recorded on them, what they
are told, and that arguments go from rank to rank beside the sums, is as with CUDA graphs.
"""

from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import run_body
from mstarc_runtime.engine.led_graphs import LedGraphs, in_graph
from mstarc_runtime.engine.regions import is_capturable, region_steps, rows_to_capture
from mstarc_runtime.plan_api import DeviceStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class RerunExecutor:
    """Runs what was recorded again, and the rest."""

    def __init__(self) -> None:
        self._led = LedGraphs()

    def captures(self, step: DeviceStep) -> bool:
        return is_capturable(step)

    def capture(self, worker: "Worker") -> int:
        """Records every region at every size; how many there are."""
        count = 0
        for step, bucket in region_steps(worker):
            with rows_to_capture(worker, step, bucket) as batch:
                run_body(worker.rank, batch)
                with self._led.recording(worker, batch):
                    run_body(worker.rank, batch)
            count += 1
        return count

    def run(self, rank: Rank, batch: StepBatch) -> None:
        with in_graph(self._led.tell(batch)):
            run_body(rank, batch)
        batch.told = max(0, batch.told - 1)

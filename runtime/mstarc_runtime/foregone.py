"""Steps that leave nothing for the host to look at: they land as soon as they are launched.

What comes next for their rows is known before the device has run them, and runs behind them on the
same queue. So the host prepares and launches that meanwhile, and the device waits for nobody. One
run of a step at a time: before the next the host waits for the one before. The last stretch of a
loop that no flag ends is such a run, too (`stretches`).

Not here: steps that send, emit or test, read streams or prompts in pieces, run beside the main
queue, or call nodes of which other ranks hold parts.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.effects import Collected, Reset
from mstarc_runtime.plan_api import DeviceStep

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class Foregone:
    """Those of one rank that the device may still run."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        # By step: what waits for the device.
        self._under_way: dict[int, Callable[[], object]] = {}

    def suits(self, step: DeviceStep, batch: StepBatch) -> bool:
        """Whether a batch that was launched leaves nothing to be looked at."""
        worker = self._worker
        if step.pieces is not None or step.reads or step.pulls:
            return False
        if worker.groups.leads.keys() & set(step.nodes) or worker.stepper.flights.is_beside(step):
            return False
        return not batch.has_masks and all(
            isinstance(effect, (Collected, Reset)) for effect in batch.leaving
        )

    def begin(self, step: DeviceStep, batch: StepBatch) -> None:
        """The batch lands now; its device work is waited for before the step's next run."""
        if self._worker.device.type == "cpu":
            assert batch.flags_are_expected(), f"step {step.name} leaves flags after all"
            return
        batch.foresee()
        self.leave(step, batch.end_read_back)

    def leave(self, step: DeviceStep, wait: Callable[[], object]) -> None:
        """A run of the step lands now; `wait` returns when the device has done it."""
        self._under_way[step.id] = wait

    def wait(self, step: DeviceStep) -> None:
        """Until the device has done the step's run before."""
        before = self._under_way.pop(step.id, None)
        if before is not None:
            self._worker.costs.wait(before)

"""Runs a step by calling its body: every call, every time."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.plan_api import DeviceStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class Executor(Protocol):
    """Runs the bodies of steps on a batch that is bound and prepared."""

    def run(self, rank: Rank, batch: StepBatch) -> None:
        """Afterwards the batch's effects and flags are those of this run."""
        ...

    def capture(self, worker: "Worker") -> int:
        """Gets ready, before the first request; how many regions it has captured."""
        ...

    def captures(self, step: DeviceStep) -> bool:
        """Whether the step's batches must have one of its buckets' sizes."""
        ...


class EagerExecutor:
    """The body as it is written."""

    def run(self, rank: Rank, batch: StepBatch) -> None:
        run_body(rank, batch)

    def capture(self, worker: "Worker") -> int:
        return 0

    def captures(self, step: DeviceStep) -> bool:
        return False


def run_body(rank: Rank, batch: StepBatch) -> None:
    """One run, whether it is recorded meanwhile or not."""
    batch.begin()
    body_of(batch)(rank, batch)
    batch.end()


def body_of(batch: StepBatch) -> Callable[..., None]:
    """What runs: the step's body, or what reads a piece of a prompt that is not the last."""
    if not batch.is_partial:
        return batch.step.run
    assert batch.step.pieces is not None, f"step {batch.step.name} has no pieces"
    return batch.step.pieces.run

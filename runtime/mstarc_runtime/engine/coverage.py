"""What a rank ran as one graph and what call by call: counted by step, padded size and reason.

Counted where a batch is launched, whichever executor runs it: an executor only notes what it has
captured. `require_graphs` compares that with every size that the scheduler can give a region's
batches, before the first request.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.messages import Tally
from mstarc_runtime.plan_api import Again, DeviceStep
from mstarc_schedule.batching import bucket_of, most_rows

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


@dataclass(slots=True, kw_only=True)
class Coverage:
    """The tallies of one rank, and the sizes that were captured."""

    tallies: dict[tuple[int, int], Tally] = field(default_factory=dict)
    captured: set[tuple[int, int]] = field(default_factory=set)
    # Steps whose regions are to run call by call.
    asked_eager: set[int] = field(default_factory=set)

    def count(self, worker: "Worker", batch: StepBatch) -> None:
        """Called for each launch."""
        key = (batch.step.id, batch.bucket)
        tally = self.tallies.get(key)
        if tally is None:
            tally = self.tallies[key] = self._tally(worker, batch.step, batch.bucket)
        tally.runs += 1
        tally.requests += batch.size

    def so_far(self) -> tuple[Tally, ...]:
        """The tallies as they are now: copies, since counting goes on."""
        return tuple(replace(tally) for tally in self.tallies.values())

    def _tally(self, worker: "Worker", step: DeviceStep, bucket: int) -> Tally:
        return Tally(
            step=step.name,
            region=step.region or "",
            nodes=step.nodes,
            bucket=bucket,
            reason=self.why_eager(worker, step, bucket),
            is_pass=isinstance(step.then, Again)
            and not worker.parts.kv.keys().isdisjoint(step.nodes),
        )

    def why_eager(self, worker: "Worker", step: DeviceStep, bucket: int) -> str:
        """Why a step's batch of this size is run call by call; empty if a graph is replayed."""
        if (step.id, bucket) in self.captured:
            return ""
        if step.id in self.asked_eager:
            return "`--eager` asks for it"
        if step.region is None:
            return "in no capture region: the plan's report says why"
        parts = sorted(worker.groups.leads.keys() & set(step.nodes))
        if parts:
            return f"other ranks hold parts of `{parts[0]}`"
        if not worker.executor.captures(step):
            return f"nothing is captured on a `{worker.device.type}`"
        return "no graph of this size was captured"


def sizes_of(worker: "Worker", step: DeviceStep) -> Iterator[tuple[int, int]]:
    """(requests, padded size) of every batch that the scheduler can make of a step."""
    policy = worker.scheduler.policy
    is_captured = worker.executor.captures(step)
    for count in range(1, most_rows(policy, step.rows, step.buckets, worker.plan.slots) + 1):
        yield count, bucket_of(policy, step.rows, step.buckets, count, captured=is_captured)


def uncovered(worker: "Worker") -> list[str]:
    """A line for each run of sizes at which a region's step would not be a graph."""
    lines = []
    for step in worker.plan.steps:
        if not isinstance(step, DeviceStep):
            continue
        if step.region is None and step.id not in worker.coverage.asked_eager:
            continue
        missing: dict[str, list[int]] = {}
        for count, bucket in sizes_of(worker, step):
            reason = worker.coverage.why_eager(worker, step, bucket)
            if reason:
                missing.setdefault(reason, []).append(count)
        lines += [
            f"`{step.name}`, batch {_ranges(counts)}: eager: {reason}"
            for reason, counts in missing.items()
        ]
    return lines


def require_graphs(worker: "Worker") -> None:
    """Fails with MS9013 if the scheduler can make a batch of a region that no graph would run."""
    missing = uncovered(worker)
    if missing:
        raise RuntimeFailure(
            "MS9013",
            f"graphs are required, and rank {worker.plan.rank} would run "
            f"{'a region' if len(missing) == 1 else 'regions'} call by call",
            notes=missing,
            helps=["run without `--require-graphs` to have such runs counted instead"],
        )


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers as runs.

    >>> _ranges([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)

"""What every way of capturing shares: which steps, at which sizes, on whose rows.

Regions are captured at start-up or while nobody is being served (`later_sizes`), on slots that
nobody has: a first run that warms up changes registers, rings and caches, and all of that is taken
back afterwards.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.op_results import WrongResult
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.sampler import GREEDY as GREEDY_SETTINGS
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.step_failures import describe
from mstarc_runtime.streaming.chunks import Chunk

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

_TORCH = Path(torch.__file__).parent
_OURS = (__file__, *(str(Path(__file__).with_name(f"{n}.py")) for n in ("fake", "cuda_graph")))


# Numbers of batches that are captured: no step that serves somebody comes as far.
_CAPTURED = 1 << 48


class CaptureError(Exception):
    """What a CUDA graph could not have captured, or would have replayed wrongly."""


def is_capturable(step: DeviceStep) -> bool:
    """Whether the compiler has found a region for the step, of shapes that a bucket fixes."""
    return step.region is not None and step.rows != "packed" and bool(step.buckets)


def region_steps(worker: "Worker") -> Iterator[tuple[DeviceStep, int]]:
    """Every step of a region with each of its buckets that is due, the largest first.

    Of those that call a node of which other ranks hold parts only where these record it, too.
    """
    for step in worker.plan.steps:
        if not isinstance(step, DeviceStep):
            continue
        if is_capturable(step) and worker.groups.can_capture(step):
            for bucket in sorted(step.buckets, reverse=True):
                is_captured = (step.id, bucket) in worker.coverage.captured
                if (
                    bucket <= worker.plan.slots
                    and not is_captured
                    and worker.later.is_due(step, bucket)
                ):
                    yield step, bucket


@contextmanager
def rows_to_capture(worker: "Worker", step: DeviceStep, bucket: int) -> Iterator[StepBatch]:
    """The step's batch of that size, prepared on free slots; they are as they were afterwards.

    Fails with MS9322 for a result of another type, with MS9016 for whatever else is raised.
    """
    assert not worker.live, "regions are captured while nobody is served"
    slots = np.arange(bucket, dtype=np.int64)
    batch = worker.stepper.batch_of(step, bucket)
    parts = worker.parts
    for slot in slots.tolist():
        for engine in parts.kv.values():
            for sampler in engine.samplers.values():
                sampler.admit(slot, GREEDY_SETTINGS)
        parts.options.admit_any(slot)
    # Ranks that hold parts of its nodes tell batches apart by this.
    batch.number = _CAPTURED + (step.id << 16) + bucket
    batch.bind(slots)
    batch.allow_all()
    for stream in step.reads:
        ring = parts.rings[stream]
        size = ring.policy.size
        batch.set_chunks(ring, [Chunk(offset=0, context=0, fresh=size)] * bucket)
    for stream in step.pulls:
        item = Chunk(offset=0, context=0, fresh=1)
        batch.set_pulled(parts.rings[stream], [item] * bucket)
    batch.growth.clear()
    if batch.log is not None:
        batch.log.begin(bucket)
    if step.prepare is not None:
        step.prepare(worker.rank, batch)
    if batch.log is not None:
        batch.log.go_on(batch)  # a kernel that is no part of the graph
    try:
        yield batch
        worker.coverage.captured.add((step.id, bucket))
    except WrongResult as error:
        raise describe(error, step, worker.plan) from error
    except Exception as error:
        raise not_captured(worker, step, bucket, error) from error
    finally:
        for slot in slots.tolist():
            worker.rank.release(slot)
            parts.options.release(slot)
        for ring in parts.rings.values():
            ring.restore_heads(slots)
        for box in parts.outboxes.values():
            box.restore_heads(slots)
        for collector in parts.collectors.values():
            collector.restore_heads(slots)
        batch.forget_rows()


def not_captured(
    worker: "Worker", step: DeviceStep, bucket: int, error: Exception
) -> RuntimeFailure:
    """What a person is told of a body that no graph can hold: its lines, and why."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(_TORCH) and frame.filename not in _OURS
    ]
    at = [f"in {frame.filename}:{frame.lineno}: {frame.line}" for frame in frames[-1:]]
    said = str(error).partition("\n")[0]
    kind = "" if isinstance(error, CaptureError) else f"{type(error).__name__}: "
    return RuntimeFailure(
        "MS9016",
        f"region `{step.region}` can't be captured: {kind}{said}",
        notes=[*at, f"step `{step.name}` at batch {bucket}, {worker.plan.spec}:{step.line}"],
        helps=[f"`--eager {step.region}` runs it call by call, and counts that"],
    )

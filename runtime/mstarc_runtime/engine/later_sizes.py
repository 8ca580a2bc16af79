"""Sizes of regions that are captured after the start, while nobody is being served.

A rank is ready once each region has its smallest and its largest size: every batch fits one of
them. Until a size between is captured its batches are padded up to the next one that is, so that
nothing runs call by call meanwhile. Those for which no kernel has to be compiled are captured at
the start all the same: they take tenths of a second, and who serves without a pause would never
get them. Of the others one is captured a turn, when no request is there: a graph is made on slots
that nobody has.
"""

import time
from typing import TYPE_CHECKING

from mstarc_runtime.engine.regions import is_capturable
from mstarc_runtime.plan_api import DeviceStep

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

QUICK_S = 1.0
"""A graph takes 0.1 to 0.3 s on an H200 where kernels are in the cache, several seconds else."""


class LaterSizes:
    """What a rank has not captured yet, by step; nothing unless `put_off` was called."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[int]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put_off(self, worker: "Worker") -> None:
        """All sizes between the smallest and the largest.

        Not those of regions that other ranks record, too: these do so as they start.
        """
        for step in worker.plan.steps:
            if not isinstance(step, DeviceStep) or not is_capturable(step):
                continue
            sizes = sorted(size for size in step.buckets if size <= worker.plan.slots)
            if len(sizes) > 2 and not worker.groups.leads.keys() & set(step.nodes):
                self._waiting[step.id] = sizes[1:-1]

    def is_due(self, step: DeviceStep, size: int) -> bool:
        """Whether it is captured the next time that the executor is asked to."""
        return size not in self._waiting.get(step.id, ())

    def ready(self, step: DeviceStep) -> tuple[int, ...]:
        """The sizes to which the step's batches are padded now."""
        waiting = self._waiting.get(step.id)
        if not waiting:
            return step.buckets
        return tuple(size for size in step.buckets if size not in waiting)

    def capture_quick(self, worker: "Worker") -> int:
        """Captures sizes until one has taken long; how many. Fails with MS9016."""
        before, took = self.count, 0.0
        while self.count and took < QUICK_S:
            began = time.monotonic()
            self.capture_next(worker)
            took = time.monotonic() - began
        return before - self.count

    def capture_next(self, worker: "Worker") -> None:
        """Captures the smallest size that waits. Fails with MS9016."""
        assert not worker.live, "somebody is being served"
        step = min(self._waiting, key=lambda step: self._waiting[step][0])
        sizes = self._waiting[step]
        sizes.pop(0)
        if not sizes:
            del self._waiting[step]
        began = time.monotonic()
        worker.executor.capture(worker)
        spent = worker.start_s.get("capture between", 0.0)
        worker.start_s["capture between"] = spent + time.monotonic() - began

"""A timeline of a run: host and device of each rank, and the requests.

Spans are noted in memory while the run goes on, by the clock that all processes of a machine share,
and become a file that Perfetto and Chrome read (`trace_file`). Where nobody asked for a trace there
is none, and a step pays for a few comparisons with None.

A device's spans are those of CUDA events around each launch, read when they are long over; on a CPU
a launch runs at once, so its wall time is the device's.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.plan_api import DeviceStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

Row = Literal["host", "device"]
Span = tuple[str, str, int, int, dict[str, Any]]
"""Row, name, when it began and how long it was (ns), facts."""

# Beyond these a trace is too large for its viewer.
MOST_SPANS = 500_000
LEFT_OUT = "left out"


class HostTrace:
    """The spans of one rank."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.left_out = 0
        # Called before the spans are read: what is still under way on the device is noted then.
        self.finish: Callable[[], None] = lambda: None
        self._turn = self._last = 0
        self._before = 0

    def begin_turn(self) -> None:
        self._turn = self._last = time.monotonic_ns()
        self._before = len(self.spans)

    def phase(self, name: str) -> None:
        """From the last phase of this turn to now was `name`."""
        now = time.monotonic_ns()
        self.add("host", name, self._last, now)
        self._last = now

    def end_turn(self, did: bool, name: str) -> None:
        """A turn in which nothing was done leaves nothing."""
        if not did:
            del self.spans[self._before :]
            return
        self.add("host", name, self._turn, time.monotonic_ns())

    def all_spans(self) -> list[Span]:
        self.finish()
        if not self.left_out:
            return self.spans
        return [*self.spans, ("host", LEFT_OUT, time.monotonic_ns(), 0, {"spans": self.left_out})]

    def add(self, row: Row, name: str, begun: int, ended: int, **facts: Any) -> None:
        if len(self.spans) >= MOST_SPANS:
            self.left_out += 1
            return
        self.spans.append((row, name, begun, ended - begun, facts))


class TracedExecutor:
    """Another executor, each of whose runs is a span of the device."""

    def __init__(self, runs: Executor, trace: HostTrace, device: torch.device) -> None:
        self._runs = runs
        self._trace = trace
        trace.finish = self._finish
        self._device = device
        self._pending: deque[tuple[str, dict[str, Any], Any, Any]] = deque()
        # An event, and when it was over by this process's clock.
        self._origin: tuple[Any, int] | None = None

    def captures(self, step: DeviceStep) -> bool:
        return self._runs.captures(step)

    def capture(self, worker: "Worker") -> int:
        return self._runs.capture(worker)

    def run(self, rank: Rank, batch: StepBatch) -> None:
        step = batch.step
        facts = {"region": step.region or "", "bucket": batch.bucket, "requests": batch.size}
        if self._device.type != "cuda":
            begun = time.monotonic_ns()
            self._runs.run(rank, batch)
            self._trace.add("device", step.name, begun, time.monotonic_ns(), **facts)
            return
        if self._origin is None:
            self._origin = self._now()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self._runs.run(rank, batch)
        end.record()
        self._pending.append((step.name, facts, begin, end))
        self._note(wait=False)

    def _finish(self) -> None:
        self._note(wait=True)

    def _now(self) -> tuple[Any, int]:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        event.synchronize()
        return event, time.monotonic_ns()

    def _note(self, *, wait: bool) -> None:
        while self._pending:
            name, facts, begin, end = self._pending[0]
            if wait:
                end.synchronize()
            elif not end.query():
                return
            self._pending.popleft()
            assert self._origin is not None
            event, at = self._origin
            begun = at + round(event.elapsed_time(begin) * 1e6)
            ended = at + round(event.elapsed_time(end) * 1e6)
            self._trace.add("device", name, begun, ended, **facts)


class RequestTrace:
    """When requests came, were let in, made something, and ended: ns by request number."""

    def __init__(self) -> None:
        self.times: dict[int, dict[str, int]] = {}
        self.slots: dict[int, int] = {}

    def submitted(self, number: int) -> None:
        self.times[number] = {"submitted": time.monotonic_ns()}

    def admitted(self, number: int, slot: int) -> None:
        self.slots[number] = slot
        self.times[number]["admitted"] = time.monotonic_ns()

    def made(self, number: int) -> None:
        self.times[number].setdefault("made", time.monotonic_ns())

    def ended(self, number: int) -> None:
        self.times[number]["ended"] = time.monotonic_ns()

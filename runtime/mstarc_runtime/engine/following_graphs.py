"""The calls of a node that another rank leads, as graphs: one for each that the leader records.

The leader's graph of a step holds the calls of its part, and gives their arguments to the other
ranks; these replay theirs in the same order. Behind the calls of a pass that others follow at once
(`engine.pass_log`) the rows move on to their next row of the cache. Rows that have stopped move on,
too: what they are given is nobody's, for them there are pages, and when the leader has seen that
they had stopped it says what is to be taken back.

All that a process follows of one leader's group is on one queue of its device, beside the one of
its own steps: the leader waits for it. Nodes of a group are called in one order on all its ranks.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from mstarc_runtime.engine.op_graphs import Graph
from mstarc_runtime.engine.pass_log import move_on


class Followed(Protocol):
    """A batch of the leader."""

    step_contexts: dict[Any, Any]

    @property
    def step(self) -> Any: ...

    @property
    def bucket(self) -> int: ...

    @property
    def size(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyAgain:
    """Where nothing can be captured: the body, run again."""

    body: Callable[[], object]

    def replay(self) -> None:
        self.body()


class FollowingQueue:
    """Where a process does what is led of a group, and how it captures that."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._is_begun = False

    def __call__(self) -> AbstractContextManager[object]:
        if self._stream is None:
            return nullcontext()
        if not self._is_begun:
            # Weights and caches were made on the main queue.
            self._is_begun = True
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        return torch.cuda.stream(self._stream)

    def capture(self, body: Callable[[], object]) -> Graph:
        """The body as a graph. On a CPU it runs now, as the leader's does."""
        if self._stream is None:
            body()
            return BodyAgain(body=body)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        # On the queue of their own, as what libraries keep for each stream is.
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            body()
        return graph


@dataclass(slots=True, kw_only=True)
class _Step:
    """The graphs of a step at one size: its calls, in their order, and what a pass ends with."""

    calls: list[Graph] = field(default_factory=list)
    end: Graph | None = None
    # What captured calls give, and what they read: memory that keeps its address.
    given: list[Any] = field(default_factory=list)
    bodies: list[Callable[[], Any]] = field(default_factory=list)
    # Rows that are no padding.
    alive: Tensor | None = None
    # Whether all that they read moves on on the device.
    goes_on: bool = False


class FollowingGraphs:
    """The graphs of one node."""

    def __init__(self, queue: FollowingQueue, device: torch.device) -> None:
        self.queue = queue
        self._device = device
        self._steps: dict[tuple[str, int], _Step] = {}

    def capture(self, batch: Followed, body: Callable[[], Any]) -> None:
        """Records a call that the leader records now."""
        step = self._steps.setdefault((batch.step.name, batch.bucket), _Step())
        number = len(step.calls)
        step.given.append(None)
        step.bodies.append(body)

        def kept() -> None:
            step.given[number] = body()

        step.calls.append(self.queue.capture(kept))

    def capture_end(self, batch: Followed) -> None:
        """Records the end of a pass that others follow at once."""
        step = self._steps[(batch.step.name, batch.bucket)]
        alive = torch.zeros(batch.bucket, dtype=torch.bool, device=self._device)
        alive[: batch.size] = True
        step.alive = alive
        contexts = [made.moving for made in batch.step_contexts.values()]
        moving = [rows for rows in contexts if rows is not None]
        step.goes_on = len(moving) == len(contexts)
        if not moving:
            return

        def body() -> None:
            for rows in moving:
                move_on(rows, alive, 1)

        # Kernels are there before they are captured; where rows stand is set before each pass.
        body()
        step.end = self.queue.capture(body)

    def replay(self, batch: Followed, first: int, last: int, passes: int) -> None:
        """Calls from number `first` to below `last`, so often; with the last one a pass ends."""
        step = self._steps[(batch.step.name, batch.bucket)]
        assert passes == 1 or step.goes_on, f"step {batch.step.name} does not go on by itself here"
        if step.alive is not None:
            step.alive[: batch.size].fill_(True)
            step.alive[batch.size :].fill_(False)
        for _ in range(passes):
            for call in step.calls[first:last]:
                call.replay()
            if step.end is not None and last == len(step.calls):
                step.end.replay()

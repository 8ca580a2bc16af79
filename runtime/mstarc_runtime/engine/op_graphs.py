"""Calls of ops whose work follows from the shapes of what they take, as CUDA graphs by shape.

A step outside of capture regions runs call by call, since its shapes differ from request to
request. But requests come again: a camera's images are of one size, a film's frames of another, and
prompts are padded to one of a few lengths (`padded_prompts`). An op of a module that names it in
`by_shape` reads nothing on the host, so that its launches for given shapes are always the same. The
first call of a shape runs as it is, and warms up; the second is captured; from then on arguments
are copied to where they were then, and the graph is replayed.

The shapes that were used last are kept, `MOST` of each op. Not here: regions, which are captured
before the first request (`cuda_graph`).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from mstarc_runtime.plan_api import Maybe

MOST = 64

Call = Callable[..., Any]


class Graph(Protocol):
    """What was captured."""

    def replay(self) -> None: ...


Capture = Callable[[Callable[[], None]], Graph]


@dataclass(slots=True)
class _Shape:
    """A call for one shape, and its graph once there is one."""

    call: Call
    graph: Graph | None = None
    taken: Sequence[Tensor] = ()
    given: Any = None


class OpGraphs:
    """The graphs of one node."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._shapes: dict[str, OrderedDict[Hashable, _Shape]] = {}

    def run(
        self,
        op: str,
        key: Hashable,
        arguments: Sequence[Any],
        make: Callable[[], Call],
        *,
        comes_again: bool = False,
    ) -> Any:
        """What the call gives, of `arguments`; results are the caller's own.

        `make` makes the call for a shape that is new; `key` says what it depends on besides. A
        shape of which it is known that it `comes_again` is captured behind its first call.
        """
        tensors, rest = _parted(arguments)
        signature = tuple((tuple(t.shape), t.dtype) for t in tensors)
        shapes = self._shapes.setdefault(op, OrderedDict())
        found = shapes.get((key, signature, rest))
        if found is None:
            if len(shapes) == MOST:
                shapes.popitem(last=False)
            found = shapes[(key, signature, rest)] = _Shape(make())
            given = found.call(*arguments)
            if comes_again:
                self._capture_shape(found, tensors, rest)
            return given
        shapes.move_to_end((key, signature, rest))
        if found.graph is None:
            self._capture_shape(found, tensors, rest)
            assert found.graph is not None
        else:
            for kept, tensor in zip(found.taken, tensors, strict=True):
                kept.copy_(tensor)
        found.graph.replay()
        # An op may give nothing.
        return tree_map(lambda part: None if part is None else part.clone(), found.given)

    def _capture_shape(
        self, shape: _Shape, tensors: Sequence[Tensor], rest: tuple[Any, ...]
    ) -> None:
        shape.taken = [t.clone() for t in tensors]
        again = _joined(shape.taken, rest)

        def body() -> None:
            shape.given = shape.call(*again)

        shape.graph = self._capture(body)


@dataclass(slots=True, kw_only=True, eq=False)
class _Queue:
    """Where the graphs of a queue are captured, and the memory that they share.

    A stream of its own: what libraries keep for each stream must not be that of another queue.
    """

    pool: Any
    side: torch.cuda.Stream
    # Torch gives up a pool with the last of its graphs, and then takes no other of that name.
    first: Any = None


class CudaCapture:
    """Captures into memory that the graphs share which are replayed on one queue.

    Somebody may be served meanwhile, and what is under way goes on: `torch.cuda.graph` would wait
    for all of it first, and give back the memory that torch keeps for later, on both sides. That is
    done only where there is too little memory else.
    """

    def __init__(self) -> None:
        self._queues: dict[torch.cuda.Stream, _Queue] = {}
        # Whose captures torch could not end: it asks them about memory for ever.
        self._broken: list[Any] = []

    def __call__(self, body: Callable[[], None]) -> Graph:
        try:
            return self._captured(body)
        except torch.OutOfMemoryError:
            # The error holds what the body has made: it is over before memory is given back.
            pass
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return self._captured(body)

    def _captured(self, body: Callable[[], None]) -> Graph:
        current = torch.cuda.current_stream()
        queue = self._queues.get(current)
        if queue is None:
            queue = _Queue(pool=torch.cuda.graph_pool_handle(), side=torch.cuda.Stream())
            self._queues[current] = queue
        graph = torch.cuda.CUDAGraph()
        if queue.first is None:
            queue.first = graph
        with torch.cuda.stream(queue.side):
            # Threads of host code may use the device meanwhile.
            graph.capture_begin(pool=queue.pool, capture_error_mode="thread_local")
            try:
                body()
            except BaseException:
                # A capture that the error has broken ends with another one, which says less.
                with suppress(RuntimeError):
                    self._end(current, graph)
                raise
            self._end(current, graph)
        return graph

    def _end(self, current: torch.cuda.Stream, graph: Any) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            # To torch it is still under way, and nothing else may be captured into its memory.
            self._broken.append(graph)
            del self._queues[current]
            raise


_HOLE = "tensor"
_MAYBE = "maybe"


def _parted(arguments: Sequence[Any]) -> tuple[list[Tensor], tuple[Any, ...]]:
    """The tensors among arguments, and what stands where."""
    tensors: list[Tensor] = []
    rest: list[Any] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            tensors.append(argument)
            rest.append(_HOLE)
        elif isinstance(argument, Maybe):
            tensors += [argument.value, argument.there]
            rest.append(_MAYBE)
        else:
            assert argument is None, f"an op by shape takes tensors, not {argument!r}"
            rest.append(None)
    return tensors, tuple(rest)


def _joined(tensors: Sequence[Tensor], rest: tuple[Any, ...]) -> list[Any]:
    """Arguments again, of their tensors."""
    left = iter(tensors)
    made: list[Any] = []
    for what in rest:
        if what == _MAYBE:
            made.append(Maybe(next(left), next(left)))
        else:
            made.append(next(left) if what == _HOLE else None)
    return made

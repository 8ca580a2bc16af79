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


class CudaCapture:
    """Captures into memory that the graphs share which are replayed on one queue.

    Somebody may be served meanwhile, and what is under way goes on: `torch.cuda.graph` would wait
    for all of it first, and give back the memory that torch keeps for later, on both sides.
    """

    def __init__(self) -> None:
        # By queue: the memory, and where its graphs are captured; what libraries keep for each
        # stream must not be that of another queue.
        self._queues: dict[torch.cuda.Stream, tuple[Any, torch.cuda.Stream]] = {}

    def __call__(self, body: Callable[[], None]) -> Graph:
        queue = torch.cuda.current_stream()
        if queue not in self._queues:
            self._queues[queue] = (torch.cuda.graph_pool_handle(), torch.cuda.Stream())
        pool, side = self._queues[queue]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side):
            # Threads of host code may use the device meanwhile.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                body()
            finally:
                graph.capture_end()
        return graph


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

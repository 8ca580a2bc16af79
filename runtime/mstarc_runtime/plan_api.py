"""What generated code may use: the one module that plans import. Standard library only.

A plan's rank module defines one subclass of `Rank`. Its `build` declares nodes, rings and
registers through a `Builder`; its other methods are the bodies of steps. `STEPS` beside it is
the static routing: which step a row goes to next is data known before the first request. What it is
given comes from here too: `plan_steps` has the data of steps, `plan_batch` what a step sees of the
requests that run in it, `plan_request` what a request brings.

The runtime (`loader`, `worker`, `engine`) gives these protocols their substance. A step runs in
three parts: `prepare` (host: room in the KV cache), `run` (device: may be captured as one CUDA
graph, so it reads and writes only registers, rings and batch buffers), and landing (host: the
worker reads flags and outputs back and routes the rows by `then`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mstarc_runtime.plan_batch import (
    Batch,
    Collector,
    Job,
    Maybe,
    Passes,
    Register,
    Ring,
    Table,
    Tensor,
    Values,
)
from mstarc_runtime.plan_request import (
    Admission,
    Audio,
    Media,
    Part,
    RequestRefused,
    parts_in_order,
)
from mstarc_runtime.plan_steps import (
    Again,
    BranchStep,
    Cut,
    DeviceStep,
    DoneStep,
    Enter,
    HopStep,
    HostStep,
    JoinStep,
    Loop,
    MarkStep,
    Pieces,
    Policy,
    SpreadStep,
    Step,
    Target,
)

__all__ = [
    "PLAN_ABI",
    "Admission",
    "Again",
    "Audio",
    "Batch",
    "BranchStep",
    "Builder",
    "Collector",
    "ContextArray",
    "Cut",
    "DeviceStep",
    "DoneStep",
    "Enter",
    "HopStep",
    "HostNode",
    "HostStep",
    "Job",
    "JoinStep",
    "KVNode",
    "Loop",
    "MarkStep",
    "Maybe",
    "Media",
    "Ops",
    "Part",
    "Passes",
    "Pieces",
    "Policy",
    "Rank",
    "Register",
    "RequestRefused",
    "Ring",
    "Sampler",
    "Signature",
    "SpreadStep",
    "StatelessNode",
    "Step",
    "Table",
    "Target",
    "Tensor",
    "Values",
    "Weights",
    "parts_in_order",
]

PLAN_ABI = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A named source. `config` overrides entries of its config.json; `seed` is for `random`.

    A host node that reads no files has the source "".
    """

    source: str
    under: str = ""
    seed: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Settings of one sampler: a number, or the name of the option that gives it.

    `allow_first` and `allow_last`: the first and the last id that may be drawn.
    """

    name: str = "default"
    temperature: float | str = 0.0
    top_k: int | str = 0
    top_p: float | str = 1.0
    repetition_penalty: float | str = 1.0
    seed: str | None = None
    allow_first: int | None = None
    allow_last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What an op takes and gives, in the spec's words: types, and results as `name: type`."""

    takes: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextArray:
    """Contexts of one name: how many a request has (a number, or an option's name), at most."""

    count: int | str
    most: int


class KVNode(Protocol):
    """A node with KV contexts. Its ops are attributes: `op(batch, *arguments, context=…)`.

    A call on an array of contexts says in `over` of each argument whether it has an entry a context
    (`each`) or is `shared` by all, and whether it is `rows` of the call, as results are that `rows`
    names. Its arguments and results have a leading dim of one entry a request, then the contexts'.

    `grow`, `peek`, `fork` and `clear` stand in a step's `prepare`, in the order of the spec; the
    forks and clears of a node in front of its calls. `context` names one that is not the first.
    """

    def grow(
        self,
        batch: Batch,
        rows: int | Sequence[int],
        context: str | None = None,
        advance: int | Sequence[int] | None = None,
        index: int | Sequence[int] | None = None,
    ) -> None:
        """Room for that many more rows a request, before the step is launched.

        `context`: not the first one. Positions move by `advance` instead of by the rows. Of an
        array, in each of its contexts, or in that at `index`.
        """

    def peek(
        self,
        batch: Batch,
        rows: int | Sequence[int],
        context: str | None = None,
        advance: int | Sequence[int] | None = None,
        index: int | Sequence[int] | None = None,
    ) -> None:
        """Room for rows that only their own call attends, and that do not stay.

        With `advance` all of them have the position at which the call begins.
        """

    def fork(
        self,
        batch: Batch,
        source: str,
        target: str,
        source_index: int | Sequence[int] | None = None,
        target_index: int | Sequence[int] | None = None,
    ) -> None:
        """Lets `target` hold what `source` holds, on the same pages until one of them writes.

        All of an array that has no index: each like the source, or like its entry of one as long.
        """

    def clear(self, batch: Batch, context: str, index: int | Sequence[int] | None = None) -> None:
        """Empties a context, or all of an array."""

    def release(self, slot: int) -> None: ...

    def __getattr__(self, op: str) -> Callable[..., Any]: ...


class StatelessNode(Protocol):
    """A node without state. Its ops are attributes: `op(batch, *arguments)`."""

    def __getattr__(self, op: str) -> Callable[..., Any]: ...


class HostNode(Protocol):
    """A node of Python code. Its ops are attributes: `op(*arguments)` for one request."""

    def release(self, slot: int) -> None: ...

    def __getattr__(self, op: str) -> Callable[..., Any]: ...


class Builder(Protocol):
    """How a rank module declares what it holds."""

    def kv_cache(
        self,
        name: str,
        *,
        impl: str,
        weights: Weights,
        layers: int,
        heads: int,
        head_dim: int,
        contexts: tuple[str, ...],
        arrays: Mapping[str, ContextArray] = ...,
        cross: Mapping[str, int],
        masks: Mapping[str, str],
        writes: Mapping[str, str],
        reads: Mapping[str, str] = ...,
        samplers: tuple[Sampler, ...],
        op_sampler: Mapping[str, str],
        signatures: Mapping[str, Signature] = ...,
        pages: int,
        page_tokens: int,
        group: tuple[int, ...] = (),
        tp: int = 1,
        sp: int = 1,
    ) -> KVNode:
        """`group`: the `tp` * `sp` ranks that hold the node's shards, the leader first.

        The other numbers are the whole node's. A rank of the group that is not its leader only
        serves the leader's calls.
        """

    def stateless(
        self,
        name: str,
        *,
        impl: str,
        weights: Weights,
        signatures: Mapping[str, Signature] = ...,
        group: tuple[int, ...] = (),
        tp: int = 1,
        sp: int = 1,
    ) -> StatelessNode: ...

    def host(self, name: str, *, impl: str, weights: Weights) -> HostNode: ...

    def ring(
        self, name: str, *, dtype: str, item: tuple[int, ...], policy: Policy, capacity: int
    ) -> Ring: ...

    def outbox(self, name: str, *, dtype: str, item: tuple[int, ...], rank: int) -> Ring:
        """The way to a ring that another rank holds."""

    def register(self, name: str, dtype: str, dims: tuple[int, ...]) -> Register: ...

    def values(self, name: str) -> Values: ...

    def collector(
        self, name: str, dtype: str, dims: tuple[int, ...] | None, *, capacity: int | None
    ) -> Collector:
        """`dims` None: rows are as large as each request says, and may be without a most."""

    def constant(self, name: str, dtype: str, value: tuple[int | float, ...]) -> Tensor:
        """A config list on the device."""

    def table(self, name: str, dtype: str, *, capacity: int) -> Table:
        """The entry of `Admission.options` of this name, `capacity` numbers at most."""

    def loop(self, loop: Loop) -> Passes: ...


class Ops(Protocol):
    """The few shape functions a walk may use, on device tensors."""

    def isin(self, value: Tensor, items: Tensor) -> Tensor: ...

    def stack(self, *values: Tensor) -> Tensor: ...

    def concat(self, *values: Tensor) -> Tensor: ...

    def repeat(self, value: Tensor, times: int) -> Tensor: ...

    def pick(self, value: Tensor, axis: int, index: Tensor) -> Tensor:
        """Each row's entry at its own `index` i64[B] along an axis, which goes; -1 is the last."""

    def window(self, value: Tensor, axis: int, start: Tensor, length: int) -> Tensor:
        """Each row's `length` entries from its own `start` i64[B] on, along an axis."""


class Rank:
    """Base of a plan's rank. The runtime sets `ops` and `options` before `build`.

    `options(slot)` gives `Admission.options` of the request that holds the slot.
    """

    rank: int
    ops: Ops
    options: Callable[[int], Mapping[str, Any]]

    def build(self, b: Builder) -> None:
        """Declare nodes, rings, registers and loops."""
        raise NotImplementedError

    def release(self, slot: int) -> None:
        """Give back all that a request holds on this rank: on finish, cancel and error."""
        raise NotImplementedError

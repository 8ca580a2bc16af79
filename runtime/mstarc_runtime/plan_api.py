"""What generated code may use: the one module that plans import. Standard library only.

A plan's rank module defines one subclass of `Rank`. Its `build` declares nodes, rings and
registers through a `Builder`; its other methods are the bodies of steps. `STEPS` beside it is
the static routing: which step a row goes to next is data known before the first request.

The runtime (`loader`, `worker`, `engine`) gives these protocols their substance. A step runs in
three parts: `prepare` (host: room in the KV cache), `run` (device: may be captured as one CUDA
graph, so it reads and writes only registers, rings and batch buffers), and landing (host: the
worker reads flags and outputs back and routes the rows by `then`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

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
    "Policy",
    "Rank",
    "Register",
    "RequestRefused",
    "Ring",
    "Sampler",
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

PLAN_ABI = 3

Tensor = Any
"""A device tensor; plans never name the library that makes it."""


# Media


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Mono sound: `samples` is an f32 array in -1 .. 1, `rate` in hertz."""

    samples: Any
    rate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A picture or a film as it came, not decoded: `content` is a file's bytes."""

    kind: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an input of several media, and where it stands among them.

    `value` is a host value of the kind: `str`, `Audio`, `Media`. A part `opens` a turn where the
    role before it is another one, and `closes` it where the next is. Made by `parts_in_order`.
    """

    kind: str
    value: Any
    role: str = "user"
    first: bool = True
    last: bool = True
    opens: bool = True
    closes: bool = True


def parts_in_order(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts, each knowing where it stands."""
    roles = [None, *(part.role for part in parts), None]
    return tuple(
        replace(
            part,
            first=index == 0,
            last=index == len(parts) - 1,
            opens=roles[index] != part.role,
            closes=roles[index + 2] != part.role,
        )
        for index, part in enumerate(parts)
    )


# Values that may not be there


@dataclass(frozen=True, slots=True)
class Maybe:
    """What an op gets for `x: T or none`: [B, *dims], zeros where a row has none; bool[B]."""

    value: Tensor
    there: Tensor


# Admission


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What is decided once, when a request arrives.

    `runs` says for each machine whether it runs; `bounds` gives each loop its most passes;
    `options` holds options, lets and tables by name.
    """

    runs: Mapping[str, bool]
    bounds: Mapping[str, int]
    options: Mapping[str, Any]


class RequestRefused(ValueError):
    """A request that the model cannot take: `field` says which part, the message says why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


# Weights


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
    """Settings of one sampler: a number, or the name of the option that gives it."""

    name: str = "default"
    temperature: float | str = 0.0
    top_k: int | str = 0
    top_p: float | str = 1.0
    repetition_penalty: float | str = 1.0
    seed: str | None = None
    suppress: tuple[int, ...] = ()
    allow: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextArray:
    """Contexts of one name: how many a request has (a number, or an option's name), at most."""

    count: int | str
    most: int


# What the runtime hands to generated code


class Batch(Protocol):
    """The rows of one step, padded to its bucket. Only `run` and `prepare` see one."""

    def more(self, condition: Tensor | bool) -> Tensor:
        """Set the loop's flag: bool[B], true where another pass runs (never beyond the bound).

        `True` says that nothing but the bound ends the loop here.
        """

    def emit(self, output: str, value: Tensor, where: Tensor | None = None) -> None:
        """Hand `value` (leading dim B, or packed) to the client's `output`."""

    def hand_over(self, output: str, values: "Values", where: Tensor | None = None) -> None:
        """Hand each row's host value to the client's `output`."""

    def option(self, name: str) -> Tensor:
        """An option of each row's request: f32[B], i64[B], or bool[B]."""

    def chosen(self, name: str, passes: "Passes | None" = None) -> Sequence[int]:
        """A whole number among each request's options; of a tuple, the entry of its pass."""

    def count(self, name: str, index: int | None = None) -> int:
        """A whole number among the options of the one request; of a tuple, its entry."""

    def full(self, value: int | float, dtype: str) -> Tensor:
        """One number in every row: [B]."""

    def alike(self, value: Tensor, number: int | float, dtype: str, *, dims: int) -> Tensor:
        """One number for each item of `value`, whose items have `dims` dims: [B, k], or [Σk]."""

    def some(self, value: Tensor) -> Maybe:
        """A value that is there in every row."""

    def maybe(self, value: Tensor, there: Tensor) -> Maybe:
        """A value that is there in some rows: bool[B]."""

    def none(self, dtype: str, dims: tuple[int, ...]) -> Maybe:
        """A value that is there in no row."""

    def stacked(self, constant: Tensor) -> Tensor:
        """A constant in every row: [B, *dims]."""

    def packed(self, constant: Tensor) -> Tensor:
        """A constant's rows once a request, one behind the other: [B * k, *dims[1:]]."""


class Job(Protocol):
    """One request at a host step."""

    slot: int
    options: Mapping[str, Any]

    def input(self, name: str) -> Any:
        """A request input as a host value: `str`, `Audio`, …; None if the request has none."""

    def emit(self, output: str, value: Any) -> None:
        """Hand a host value to the client's `output`."""


class Register(Protocol):
    """A value of fixed shape, one row a slot, on the device."""

    def take(self, batch: Batch) -> Tensor:
        """[B, *dims]"""

    def put(self, batch: Batch, value: Tensor) -> None:
        """Store [B, *dims] into the batch's slots."""

    def get(self, job: Job) -> Tensor:
        """[*dims] on the host."""

    def set(self, job: Job, value: Any) -> None:
        """Store a host value."""

    def release(self, slot: int) -> None: ...


class Values(Protocol):
    """A value whose shape differs from request to request, or a host object: one a slot."""

    def pack(self, batch: Batch) -> Tensor:
        """Rows of all requests one behind the other: [ΣT, …]."""

    def stack(self, batch: Batch) -> Tensor:
        """Requests of equal shapes: [B, …]."""

    def put(self, batch: Batch, value: Tensor) -> None: ...

    def lengths(self, batch: Batch, axis: int = 0) -> Sequence[int]:
        """Rows of each request: how long its value is there."""

    def numbers(self, batch: Batch) -> Sequence[int]:
        """The value of each request, which is one whole number that the host knows."""

    def get(self, job: Job) -> Any: ...

    def set(self, job: Job, value: Any) -> None: ...

    def release(self, slot: int) -> None: ...


class Collector(Protocol):
    """`collect`: one row a pass, at most `capacity` a request."""

    def reset(self, batch: Batch) -> None: ...

    def append(self, batch: Batch, value: Tensor, where: Tensor | None = None) -> None: ...

    def get(self, job: Job) -> Tensor:
        """[passes, *dims] on the host."""

    def pack(self, batch: Batch) -> Tensor: ...

    def stack(self, batch: Batch) -> Tensor:
        """The rows of the one request: [1, passes, *dims]."""

    def lengths(self, batch: Batch) -> Sequence[int]: ...

    def release(self, slot: int) -> None: ...


class Ring(Protocol):
    """A stream's buffer on the rank that reads it, or the way to it from another rank."""

    def append(
        self,
        batch: Batch,
        value: Tensor,
        where: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> None:
        """Send an item of each row, [B, *item], or several, [B, k, *item], where `where` holds.

        `ends`: bool[B] or bool[B, k], items that end a chunk (`until`).
        """

    def window(self, batch: Batch) -> Tensor:
        """The chunk of each row, of one length: [B, k, *item]; [B, *item] for `fixed(1)`."""

    def pack(self, batch: Batch) -> Tensor:
        """The chunks of all rows one behind the other: [Σk, *item]."""

    def item(self, batch: Batch) -> Tensor:
        """The item that the step pulls for each row: [B, *item]."""

    def item_or_none(self, batch: Batch) -> Maybe:
        """The item that the step pulls for each row; none where the stream is closed and empty."""

    def lengths(self, batch: Batch) -> Sequence[int]: ...

    def chunk(self, job: Job) -> Tensor:
        """The chunk of one request, on the host: [k, *item]."""

    def release(self, slot: int) -> None: ...


class Passes(Protocol):
    """Which pass of a loop a request is in, from 0; the steps of the pass may ask."""

    def number(self, slot: int) -> int:
        """On the host."""

    def count(self, batch: Batch) -> int:
        """On the host, of the one request of a batch."""

    def index(self, batch: Batch) -> Tensor:
        """i64[B], for a step that lists the loop in `passes`."""


class Table(Protocol):
    """Numbers of a request that admission has computed: a tuple among `Admission.options`."""

    def at(self, batch: Batch, index: Tensor | int) -> Tensor:
        """Each row's entry at `index` (one for all rows, or i64[B]): [B]."""


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

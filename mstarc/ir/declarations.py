"""What a program declares: nodes with their ops, the request, streams.

A node's op has parameters and results, and says what it does to the node's contexts. Of the request
there are inputs, outputs and options, and what admission computes of them.
"""

from typing import Literal

from mstarc.ir.exprs import Expr
from mstarc.ir.types import Dim, Type
from mstarc.records import dataclass
from mstarc.source import Span

Engine = Literal["kv_cache", "stateless", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A definition: a unique name within its walk, or a register of its machine."""

    name: str
    type: Type


# Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`condition` is over the op's flags; the value is there only where it holds."""

    name: str
    type: Type
    condition: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """`attends`: `frames` has a size, the rows of one frame."""

    kind: Literal["causal", "full", "prefix", "frames"]
    size: Dim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One thing that a node can do. `writes`/`reads` name contexts; a stateless op has neither."""

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    mask: Mask | None = None
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    advance: Expr | None = None
    receptive: int | None = None
    sampler: str | None = None
    stateful: bool = False
    cost: tuple[tuple[str, float], ...] = ()
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One KV cache of a node. With `count` it is an array; `cross` is its fixed length."""

    name: str
    count: Expr | None = None
    cross: int | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where a node's weights come from; `under` is a prefix of tensor names."""

    source: str
    under: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A block of the model. `kv` and each sampler are (setting, expression) pairs in spec order."""

    name: str
    engine: Engine
    impl: str
    ops: tuple[Op, ...]
    weights: Weights | None = None
    shards: tuple[str, ...] = ()
    kv: tuple[tuple[str, Expr], ...] = ()
    contexts: tuple[Context, ...] = ()
    samplers: tuple[tuple[str, tuple[tuple[str, Expr], ...]], ...] = ()
    aliases: tuple[str, ...] = ()
    span: Span


# The request


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    name: str
    type: Type
    optional: bool = False
    at_least: int = 0
    turns: bool = False
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputField:
    """`via` is the (node, op) that makes text of tokens."""

    name: str
    type: Type
    optional: bool = False
    via: tuple[str, str] | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """`domain` is ("range", low, high), both ends allowed, or ("set", values)."""

    name: str
    type: Type
    default: int | float | bool | str | None = None
    domain: tuple[Literal["range", "set"], tuple[int | float | bool | str, ...]] | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Let:
    name: str
    type: Type
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`value` over `index` in 0 .. length - 1, computed at admission."""

    name: str
    index: str
    length: Expr
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    condition: Expr
    span: Span


# Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a stream is cut. Fields of other kinds are 0, () or None.

    fixed: `size`; sliding: `size` = window, `stride`; left_context: `size` = chunk, `context`,
    `ramp`; until: `stop` over the name `item` (or `mark`), `size` = max.
    """

    kind: Literal["fixed", "sliding", "left_context", "until"]
    size: int
    stride: int = 0
    context: int = 0
    ramp: tuple[int, ...] = ()
    stop: Expr | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    kind: Literal["drop", "short", "pad"]
    value: int | float | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An asynchronous edge between two machines. size-chunk-buffers sets `capacity`, in items."""

    name: str
    item: Type
    policy: Policy
    tail: Tail | None = None
    empty: Literal["skip", "error"] | None = None
    marks: tuple[str, ...] = ()
    producer: str
    consumer: str
    capacity: int | None = None
    span: Span

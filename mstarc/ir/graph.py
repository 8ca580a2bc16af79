"""Programs: nodes, streams, walks and machines, and what the passes have decided about them.

In a walk every value has one definition. A loop's carried values are parameters of its body;
`yields` are their values for the next pass, in the same order:

    %last = loop max $max_tokens carry (%token = %first) while %token != 2 {
      send codes <- %token
      %token.1 = lm.step(%token)
      yield %token.1
    }

A machine's registers hold none until they are set, and may be set again; they live as long as the
request.
"""

from typing import Literal

from mstarc.ir.decisions import Capacity, Hop, MemoryRow, PagePool, Placement, Region, Uncaptured
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


# Statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One use of an op. `site` is unique in the program: `walk/ordinal` or `machine.state/ordinal`.

    `arguments` are in the order of the op's parameters. A result that nobody takes is None.
    `index` picks one context of an array. A call on a whole array gives its results with one
    leading dim more, an entry a context; `over` says which arguments have such a dim, and the
    others are shared by all contexts.
    `ranks` is set by place: those of the assignment; the first is where the call is at `home`.
    """

    node: str
    op: str
    arguments: tuple[Expr, ...]
    results: tuple[Value | None, ...]
    context: str | None = None
    index: Expr | None = None
    over: tuple[bool, ...] = ()
    site: str
    ranks: tuple[int, ...] = ()
    span: Span

    @property
    def home(self) -> int:
        """The rank that runs the call; other ranks of it follow. Rank 0 before placement."""
        return self.ranks[0] if self.ranks else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """A value made by reshaping others: `slice`, `stack`, `concat`, `repeat`, or a plain copy."""

    result: Value
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    stream: str
    values: tuple[Expr, ...]
    condition: Expr | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """One item of a stream; with `or_none`, none once the stream is closed and empty."""

    stream: str
    result: Value
    or_none: bool
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    output: str
    value: Expr
    condition: Expr | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """`value` is the parameter of the body; `initial` its value in the first pass."""

    value: Value
    initial: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """`result` stacks `value` (of the body, or a carried one as the pass hands it on) per pass."""

    result: Value
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`times`: exactly `bound` passes; `max`: at most. `condition` is tested before each pass
    (`while`) over the body's parameters, `until` after each over the body's values.

    `results` are the carried values after the loop, one a carry, in order.
    """

    kind: Literal["times", "max"]
    bound: Expr
    index: str | None = None
    carries: tuple[Carry, ...] = ()
    collects: tuple[Collect, ...] = ()
    condition: Expr | None = None
    until: Expr | None = None
    body: tuple["Statement", ...]
    yields: tuple[Expr, ...] = ()
    results: tuple[Value, ...] = ()
    site: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Branches that do not depend on one another. Values of all branches are seen afterwards."""

    branches: tuple[tuple["Statement", ...], ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A static choice. `results[i]` is `yields[i]` of the branch taken; a branch that does not
    set it yields `Const(None)`. In a machine, registers are set directly and `results` is empty.
    """

    condition: Expr
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...] = ()
    then_yields: tuple[Expr, ...] = ()
    otherwise_yields: tuple[Expr, ...] = ()
    results: tuple[Value, ...] = ()
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """`target` holds what `source` holds. Of arrays: one each with an index, else all of them."""

    node: str
    target: str
    source: str
    target_index: Expr | None = None
    source_index: Expr | None = None
    condition: Expr | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Empties a context; of an array without an index, all of its contexts."""

    node: str
    context: str
    index: Expr | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A machine runs a walk to its end. `site` is unique in the program."""

    walk: str
    arguments: tuple[Expr, ...]
    results: tuple[Value | None, ...]
    site: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """For every chunk of a stream (several names: `zip`), until it closes or `until` is marked."""

    streams: tuple[str, ...]
    names: tuple[Value, ...]
    last: str | None = None
    policy: Policy | None = None
    until: str | None = None
    body: tuple["Statement", ...]
    site: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ForParts:
    """For every part of the input `over`; arms by media kind, each binding its part."""

    part: str
    over: str
    body: tuple["Statement", ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    part: str
    arms: tuple["Arm", ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    kind: str
    value: Value
    body: tuple["Statement", ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkStream:
    stream: str
    mark: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRegister:
    """A `let` inside a state, or a copy."""

    result: Value
    value: Expr
    span: Span


Statement = (
    Call
    | Assign
    | Send
    | Pull
    | Emit
    | Loop
    | Parallel
    | When
    | Fork
    | Release
    | Run
    | Each
    | ForParts
    | Match
    | MarkStream
    | SetRegister
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A named path. `returns` are the values of `results`, in order."""

    name: str
    parameters: tuple[Value, ...]
    results: tuple[Result, ...]
    body: tuple[Statement, ...]
    returns: tuple[Expr, ...] = ()
    aliases: tuple[str, ...] = ()
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Go to state `target` (`done` ends the machine), or, if `condition` fails, to `otherwise`."""

    target: str
    condition: Expr | None = None
    otherwise: str | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    name: str
    body: tuple[Statement, ...]
    next: Transition
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The per-request program that picks walks; the first state is where it starts."""

    name: str
    condition: Expr | None = None
    registers: tuple[Value, ...] = ()
    states: tuple[State, ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole model. What no pass has decided yet is None or empty."""

    model: str
    checkpoint: str | None
    config: tuple[tuple[str, int | float | bool | str | tuple[int | float | bool | str, ...]], ...]
    inputs: tuple[InputField, ...]
    outputs: tuple[OutputField, ...]
    options: tuple[OptionField, ...]
    needs: tuple[Need, ...] = ()
    lets: tuple[Let, ...] = ()
    tables: tuple[Table, ...] = ()
    nodes: tuple[Node, ...]
    streams: tuple[Stream, ...]
    walks: tuple[Walk, ...]
    machines: tuple[Machine, ...]
    folded: tuple[tuple[str, str], ...] = ()
    placement: Placement | None = None
    hops: tuple[Hop, ...] = ()
    regions: tuple[Region, ...] = ()
    uncaptured: tuple[Uncaptured, ...] = ()
    pools: tuple[PagePool, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    capacity: Capacity | None = None

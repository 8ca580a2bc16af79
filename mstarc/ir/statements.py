"""What stands in the body of a walk, or of a machine's state: calls, and what moves their values.

A statement defines values, or changes streams, outputs and contexts. Those with bodies (`Loop`,
`Parallel`, `When`, `Each`, `ForParts`, `Match`) hold statements again; `walking` goes through them.
"""

from typing import Literal

from mstarc.ir.declarations import Policy, Value
from mstarc.ir.exprs import Expr
from mstarc.records import dataclass
from mstarc.source import Span


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

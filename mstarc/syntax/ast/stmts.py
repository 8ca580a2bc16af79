"""Statements of walks and of machine states.

One union holds them all; the parser refuses what does not belong where it stands (MS0109), so a
walk's block holds `WalkStmt`s and a state's block holds `MachineStmt`s.
"""

from typing import Literal, TypeAlias

from mstarc.records import dataclass
from mstarc.syntax.ast.base import Name, Node
from mstarc.syntax.ast.exprs import Arg, ContextRef, Expr, OpCall, Rhs, RunCall


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block(Node):
    """`{ … }`, the braces included in the span."""

    statements: tuple["Stmt", ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Discard(Node):
    """`_`: a value that is dropped."""


Target: TypeAlias = Name | Discard


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assign(Node):
    """`a, _ = value`, one target or more."""

    targets: tuple[Target, ...]
    value: Rhs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallStmt(Node):
    """A call of an op that gives nothing, or whose results nobody takes."""

    call: OpCall


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunStmt(Node):
    """`run walk(args)`, results not taken."""

    call: RunCall


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Let(Node):
    """`let name = value`: a static value. At the top of a spec it is seen everywhere."""

    name: Name
    value: Expr
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Send(Node):
    """`send stream <- a, b if condition`."""

    stream: Name
    values: tuple[Expr, ...]
    condition: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Emit(Node):
    """`emit output <- value if condition`."""

    output: Name
    value: Expr
    condition: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopBound(Node):
    """`count times` (exactly), or `max count` (at most)."""

    kind: Literal["times", "max"]
    count: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Carry(Node):
    """`name = initial`: a value that each iteration hands to the next."""

    name: Name
    initial: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collect(Node):
    """`name = value`: one value an iteration, stacked on a leading dim."""

    name: Name
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loop(Node):
    """A loop. `while_condition` is tested before each iteration, `until_condition` after."""

    bound: LoopBound
    index: Name | None
    carries: tuple[Carry, ...]
    collects: tuple[Collect, ...]
    while_condition: Expr | None
    body: Block
    until_condition: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parallel(Node):
    """`parallel { … }`: its statements do not depend on each other."""

    body: Block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class When(Node):
    """`when condition { … } else …`, on a static condition."""

    condition: Expr
    then: Block
    otherwise: "Block | When | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextPath(Node):
    """`node.context`."""

    node: Name
    context: ContextRef


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fork(Node):
    """`fork target = source if condition`."""

    target: ContextPath
    source: ContextPath
    condition: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release(Node):
    """`release node.context`."""

    target: ContextPath


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class For(Node):
    """`for variable in source { … }`, over a request's parts."""

    variable: Name
    source: Name
    body: Block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm(Node):
    """`kind(binding) { … }` inside `match`."""

    kind: Name
    binding: Name
    body: Block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Match(Node):
    """`match part { text(t) { … } … }`."""

    subject: Name
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policy(Node):
    """A chunk policy: `sliding(window = 28, stride = 7)`, `until(item in ends, max = 24)`."""

    name: Name
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Each(Node):
    """`each streams as items, last chunk policy until mark body`.

    `streams` are several under `zip(a, b)`; `items` names the chunk of each, in that order.
    `last` is the name that tells whether the chunk is the last one. `run walk(…)` without braces
    is a block of one statement.
    """

    streams: tuple[Name, ...]
    items: tuple[Name, ...]
    last: Name | None
    policy: Policy | None
    until: Name | None
    body: Block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mark(Node):
    """`mark stream.mark`: a mark after the items sent so far."""

    stream: Name
    mark: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Next(Node):
    """`next target`, `next target if condition`, `next target if condition else otherwise`.

    The target `done` ends the machine.
    """

    target: Name
    condition: Expr | None
    otherwise: Name | None


Stmt: TypeAlias = (
    Assign
    | CallStmt
    | RunStmt
    | Let
    | Send
    | Emit
    | Loop
    | Parallel
    | When
    | Fork
    | Release
    | For
    | Match
    | Each
    | Mark
    | Next
)

WalkStmt: TypeAlias = (
    Assign | CallStmt | RunStmt | Send | Emit | Loop | Parallel | When | Fork | Release | Mark
)

MachineStmt: TypeAlias = (
    Assign | CallStmt | RunStmt | Let | When | Fork | Release | For | Match | Each | Mark | Next
)

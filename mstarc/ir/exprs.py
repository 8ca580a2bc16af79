"""Expressions of the IR: bounds, conditions and static arguments.

A condition over values of a walk (`token != eos`) is computed on the device; every other one
(options, flags, lets, tables, loop indices, parts) is static and computed on the host.
"""

from dataclasses import field
from typing import Literal

from mstarc.records import dataclass

UnaryOperator = Literal["-", "not"]
BinaryOperator = Literal[
    "+", "-", "*", "/", "//", "%", "and", "or", "==", "!=", "<", "<=", ">", ">="
]


@dataclass(frozen=True, slots=True)
class Const:
    """A literal, or a config value, which is a literal by now. Lists are tuples; none is None.

    `name` is the config entry that the value was written as: for people, without meaning.
    """

    value: int | float | bool | str | tuple[int | float | bool | str, ...] | None
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Local:
    """A value of the walk or a register of the machine, by its unique name there."""

    name: str


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the request."""

    name: str


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the request, as a whole."""

    name: str


@dataclass(frozen=True, slots=True)
class LetRef:
    """A `let` at the top of the spec, computed at admission."""

    name: str


@dataclass(frozen=True, slots=True)
class TableItem:
    """Entry `index` of a table computed at admission."""

    table: str
    index: "Expr"


@dataclass(frozen=True, slots=True)
class LoopIndex:
    """The index of the enclosing loop that is named so, from 0."""

    name: str


@dataclass(frozen=True, slots=True)
class PartAttribute:
    """`.role`, `.first`, `.last`, `.opens` or `.closes` of the part that a `for` is at."""

    part: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Wants:
    """Whether the request asked for this output."""

    output: str


@dataclass(frozen=True, slots=True)
class Has:
    """Whether the request has an input of this name, or a part of this media kind."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A named field of a tuple item: `s.h`."""

    value: "Expr"
    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    operator: UnaryOperator
    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Binary:
    operator: BinaryOperator
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True)
class Member:
    """`token in stop_ids`."""

    item: "Expr"
    items: "Expr"


@dataclass(frozen=True, slots=True)
class Slice:
    """`a[:, h]`: per axis an index, or a (start, stop) pair with None for an open end."""

    value: "Expr"
    axes: tuple["Expr | tuple[Expr | None, Expr | None]", ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """`stack`, `concat` or `repeat` of values: the only reshaping a walk may do."""

    function: Literal["stack", "concat", "repeat"]
    arguments: tuple["Expr", ...]


Expr = (
    Const
    | Local
    | Option
    | Input
    | LetRef
    | TableItem
    | LoopIndex
    | PartAttribute
    | Wants
    | Has
    | Field
    | Unary
    | Binary
    | Member
    | Slice
    | Shape
)

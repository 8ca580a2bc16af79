"""Expressions: values, conditions, dims, and the calls that make values."""

from typing import Literal, TypeAlias

from mstarc.records import dataclass
from mstarc.syntax.ast.base import Name, Node

BinaryOp: TypeAlias = Literal["+", "-", "*", "/", "//", "%"]
CompareOp: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Int(Node):
    """`28`."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Float(Node):
    """`0.6`; `text` is as written."""

    value: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Str(Node):
    """`"tara"`; `value` is without the quotes and with escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bool(Node):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoneLit(Node):
    """`none`: no value, where a parameter is `or none`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class List(Node):
    """`[1, 2]`."""

    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuple(Node):
    """`(4, 8, 16)`, two items or more."""

    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unary(Node):
    """`-x`."""

    op: Literal["-"]
    operand: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Binary(Node):
    """`left op right`."""

    op: BinaryOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compare(Node):
    """`left op right`, giving a truth value. Comparisons do not chain."""

    op: CompareOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member(Node):
    """`item in container`."""

    item: "Expr"
    container: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class And(Node):
    """`left and right`."""

    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Or(Node):
    """`left or right`."""

    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Not(Node):
    """`not operand`."""

    operand: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wants(Node):
    """`wants speech`: the request asks for this output."""

    output: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Has(Node):
    """`has image`: the request has a part of this kind, or gives this optional input."""

    subject: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attr(Node):
    """`base.name`: a field of a part, of a stream's item, of a chunk."""

    base: "Expr"
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slice(Node):
    """`lower:upper` in an index; either may be missing."""

    lower: "Expr | None"
    upper: "Expr | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Index(Node):
    """`base[i, 1:n]`, one item or more."""

    base: "Expr"
    items: tuple["Expr | Slice", ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arg(Node):
    """An argument; `name` is set when it is given by name."""

    name: Name | None
    value: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallExpr(Node):
    """`concat(a, b)`: a function of the language, not an op and not a walk."""

    function: Name
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextRef(Node):
    """`main`, or `dream[2]`: a context of a node that is known from where this stands."""

    name: Name
    index: "Expr | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpRef(Node):
    """`node.op`."""

    node: Name
    op: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpCall(Node):
    """`node.op(args)`, with `on context` where one is named (only as a whole right-hand side)."""

    target: OpRef
    args: tuple[Arg, ...]
    context: ContextRef | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunCall(Node):
    """`run walk(args)`."""

    walk: Name
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pull(Node):
    """`pull stream`, or `pull stream or none`."""

    stream: Name
    or_none: bool


Literals: TypeAlias = Int | Float | Str | Bool | NoneLit | List

Expr: TypeAlias = (
    Name
    | Int
    | Float
    | Str
    | Bool
    | NoneLit
    | List
    | Tuple
    | Unary
    | Binary
    | Compare
    | Member
    | And
    | Or
    | Not
    | Wants
    | Has
    | Attr
    | Index
    | CallExpr
    | OpCall
)
"""Whatever has a value where it stands."""

Rhs: TypeAlias = Expr | RunCall | Pull
"""What may stand right of `=` in a statement."""

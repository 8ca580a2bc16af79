"""Types as written: of config items, request fields, parameters, results and stream items."""

from typing import TypeAlias

from mstarc.records import dataclass
from mstarc.syntax.ast.base import Name, Node
from mstarc.syntax.ast.exprs import Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScalarType(Node):
    """One word: `i64`, `float`, `flag`, `str`, and media without an argument (`text`, `image`)."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnknownDim(Node):
    """`?`: a dim that only the run knows."""


Dim: TypeAlias = Expr | UnknownDim


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorType(Node):
    """`bf16[T, 2 * hidden]`."""

    dtype: Name
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MediaType(Node):
    """`audio(24000)`."""

    name: Name
    argument: Expr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartsType(Node):
    """`[text | image]`: parts in the order the user gave them, each of one of these kinds."""

    kinds: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListType(Node):
    """`[int]`: a list of `int`, `float`, `str` or `bool` in config and options."""

    element: Name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypeField(Node):
    """`h: bf16[hidden]` inside a tuple type."""

    name: Name
    type: "Type"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TupleType(Node):
    """`(h: bf16[hidden], media: bool)`."""

    fields: tuple[TypeField, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptionalType(Node):
    """`inner or none`."""

    inner: "Type"


Type: TypeAlias = (
    ScalarType | TensorType | MediaType | PartsType | ListType | TupleType | OptionalType
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Param(Node):
    """A parameter of an op or a walk."""

    name: Name
    type: Type
    default: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result(Node):
    """A result of an op or a walk; with `condition` it is there only if that flag holds."""

    name: Name
    type: Type
    condition: Expr | None

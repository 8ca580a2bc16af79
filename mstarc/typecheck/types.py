"""Types of values, as the checker knows them: config names are numbers by now."""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from mstarc.records import dataclass
from mstarc.typecheck.dims import Dim, DimVar

DType: TypeAlias = Literal["f32", "bf16", "f16", "i64", "i32", "u8", "bool"]
ScalarKind: TypeAlias = Literal["int", "float", "bool", "str"]
MediaKind: TypeAlias = Literal["text", "image", "audio", "video", "action", "tensor"]

DTYPES: tuple[DType, ...] = get_args(DType)
SCALAR_KINDS: tuple[ScalarKind, ...] = get_args(ScalarKind)
MEDIA_KINDS: tuple[MediaKind, ...] = get_args(MediaKind)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor; without dims it is one number."""

    dtype: DType
    dims: tuple[Dim, ...] = ()

    def __str__(self) -> str:
        return self.dtype + (f"[{', '.join(map(str, self.dims))}]" if self.dims else "")


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A value that the host knows: of config, an option, a let, a table, a loop index."""

    kind: ScalarKind

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class FlagType:
    """A static argument of an op or a walk."""

    def __str__(self) -> str:
        return "flag"


@dataclass(frozen=True, slots=True)
class MediaType:
    """What a request carries; `rate` in hertz for audio, none where any will do."""

    kind: MediaKind
    rate: int | None = None

    def __str__(self) -> str:
        return self.kind if self.rate is None else f"{self.kind}({self.rate})"


@dataclass(frozen=True, slots=True)
class PartsType:
    """Parts in the order that the user gave them."""

    kinds: tuple[MediaType, ...]

    def __str__(self) -> str:
        return f"[{' | '.join(map(str, self.kinds))}]"


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of config; `length` is none where it is not known yet."""

    kind: ScalarKind
    length: int | None = None

    def __str__(self) -> str:
        return f"[{self.kind}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A stream's item of several named values, or a chunk of such items."""

    fields: tuple[tuple[str, "Type"], ...]

    def __str__(self) -> str:
        return f"({', '.join(f'{name}: {type_}' for name, type_ in self.fields)})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be none when the request runs."""

    item: "Type"

    def __str__(self) -> str:
        return f"{self.item} or none"


@dataclass(frozen=True, slots=True)
class NoneType:
    """The type of `none`."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class ErrorType:
    """Something already reported: it fits everywhere, so that one mistake is one error."""

    def __str__(self) -> str:
        return "?"


Type: TypeAlias = (
    TensorType
    | ScalarType
    | FlagType
    | MediaType
    | PartsType
    | ListType
    | TupleType
    | OptionalType
    | NoneType
    | ErrorType
)

ERROR = ErrorType()
FLAG = FlagType()
INT = ScalarType("int")
FLOAT = ScalarType("float")
BOOL = ScalarType("bool")
STR = ScalarType("str")


def optional(type_: Type) -> Type:
    """`type_ or none`, once."""
    return type_ if isinstance(type_, OptionalType | NoneType | ErrorType) else OptionalType(type_)


def map_dims(type_: Type, what: Callable[[DimVar], Dim | None]) -> Type:
    """The same type with dim variables replaced where `what` gives something."""
    match type_:
        case TensorType(dtype, dims):
            return TensorType(dtype, tuple(dim.replace(what) for dim in dims))
        case TupleType(fields):
            return TupleType(tuple((name, map_dims(entry, what)) for name, entry in fields))
        case OptionalType(item):
            return OptionalType(map_dims(item, what))
        case _:
            return type_


def with_leading(type_: Type, dim: Dim) -> Type:
    """A type of `dim` items in a row: each tensor in it gets one leading dim more."""
    match type_:
        case TensorType(dtype, dims):
            return TensorType(dtype, (dim, *dims))
        case TupleType(fields):
            return TupleType(tuple((name, with_leading(entry, dim)) for name, entry in fields))
        case _:
            return type_


def dims_of(type_: Type) -> tuple[Dim, ...]:
    """All dims in a type, in order."""
    match type_:
        case TensorType(_, dims):
            return dims
        case TupleType(fields):
            return tuple(dim for _, entry in fields for dim in dims_of(entry))
        case OptionalType(item):
            return dims_of(item)
        case _:
            return ()

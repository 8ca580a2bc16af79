"""Types and dims of IR values. Config names are folded away: a dim is a number or free."""

from typing import Literal

from mstarc.records import dataclass

DType = Literal["f32", "bf16", "f16", "i64", "i32", "u8", "bool"]
ScalarKind = Literal["int", "float", "bool", "str"]
MediaKind = Literal["text", "image", "audio", "video", "action", "tensor"]
DimOperator = Literal["+", "-", "*", "//", "%"]

DTYPE_BYTES: dict[DType, int] = {
    "f32": 4,
    "bf16": 2,
    "f16": 2,
    "i64": 8,
    "i32": 4,
    "u8": 1,
    "bool": 1,
}


@dataclass(frozen=True, slots=True)
class DimConst:
    """A size known when the plan is made."""

    value: int


@dataclass(frozen=True, slots=True)
class DimVar:
    """A free size, such as `T`: each call binds its own.

    `request` sizes come from an option or a `let` and are known at admission.
    """

    name: str
    request: bool = False


@dataclass(frozen=True, slots=True)
class DimUnknown:
    """`?`: a size that only the run knows."""


@dataclass(frozen=True, slots=True)
class DimBinary:
    """An expression over sizes, such as `1920 * F - 555`."""

    operator: DimOperator
    left: "Dim"
    right: "Dim"


Dim = DimConst | DimVar | DimUnknown | DimBinary


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor; `dims == ()` is one number, such as a token."""

    dtype: DType
    dims: tuple[Dim, ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether every dim is a known number."""
        return all(isinstance(dim, DimConst) for dim in self.dims)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A host value of a request: an option, a `let`, a table entry."""

    kind: ScalarKind


@dataclass(frozen=True, slots=True)
class FlagType:
    """A static argument: each combination in use becomes a specialised region."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """What a request carries in or out. `rate` is in hertz, for audio."""

    kind: MediaKind
    rate: int | None = None


@dataclass(frozen=True, slots=True)
class PartsType:
    """A sequence of media in the order the user gave them."""

    kinds: tuple[MediaType, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """A constant list from config, such as stop ids."""

    kind: ScalarKind


@dataclass(frozen=True, slots=True)
class TupleType:
    """A stream item of several named tensors."""

    fields: tuple[tuple[str, "Type"], ...]


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be none."""

    item: "Type"


Type = (
    TensorType | ScalarType | FlagType | MediaType | PartsType | ListType | TupleType | OptionalType
)

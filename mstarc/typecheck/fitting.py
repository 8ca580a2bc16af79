"""Whether a value of one type may stand where another is wanted, and why not."""

from dataclasses import field

from mstarc.records import dataclass
from mstarc.typecheck.dims import Dim, DimVar, constant, variable
from mstarc.typecheck.types import (
    ErrorType,
    FlagType,
    ListType,
    MediaType,
    NoneType,
    OptionalType,
    PartsType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a value does not fit. `code` is the diagnostic's, `reason` the primary label."""

    code: str
    reason: str


@dataclass(slots=True)
class Fitter:
    """Fits the arguments of one call. Dims of `scope` are free: the call binds them."""

    scope: int
    bound: dict[DimVar, Dim] = field(default_factory=dict)

    def bind(self, wanted: Type, found: Type) -> None:
        """Bind the dims that stand alone in `wanted`; what does not fit is left to `fit`."""
        match wanted, found:
            case OptionalType(item), OptionalType(inner):
                self.bind(item, inner)
            case OptionalType(item), _:
                self.bind(item, found)
            case _, OptionalType(inner):
                self.bind(wanted, inner)
            case TensorType(_, dims), TensorType(_, sizes) if len(dims) == len(sizes):
                for dim, size in zip(dims, sizes, strict=True):
                    self._bind_dim(dim, size)
            case TensorType(_, (dim,)), ListType(_, length) if length is not None:
                self._bind_dim(dim, constant(length))
            case TupleType(fields), TupleType(entries) if len(fields) == len(entries):
                for (_, field_type), (_, entry) in zip(fields, entries, strict=True):
                    self.bind(field_type, entry)
            case _:
                pass

    def fit(self, wanted: Type, found: Type) -> Misfit | None:
        """None where `found` may stand for `wanted`."""
        if wanted.__class__ is TensorType and found.__class__ is TensorType:
            return self._fit_tensor(wanted, found)  # most are, and the cases below take their time
        match wanted, found:
            case (ErrorType(), _) | (_, ErrorType()):
                return None
            case OptionalType(), NoneType():
                return None
            case OptionalType(item), OptionalType(inner):
                return self.fit(item, inner)
            case OptionalType(item), _:
                return self.fit(item, found)
            case _, OptionalType() | NoneType():
                return Misfit("MS0307", f"`{found}`: it may be none")
            case (FlagType(), FlagType() | ScalarType("bool")):
                return None
            case ScalarType(kind), ScalarType(other):
                if kind == other or (kind, other) == ("float", "int"):
                    return None
            case ScalarType("bool"), FlagType():
                return None
            case TensorType(), _:
                return self._fit_tensor(wanted, found)
            case MediaType(kind, rate), MediaType(other, found_rate) if kind == other:
                if rate is None or found_rate is None or rate == found_rate:
                    return None
                return Misfit("MS0306", f"{found_rate} hertz, not {rate}")
            case PartsType(), PartsType():
                return None if wanted == found else Misfit("MS0302", f"`{found}`")
            case TupleType(fields), TupleType(entries):
                return self._fit_tuple(fields, entries)
            case ListType(kind), ListType(other) if kind == other:
                return None
            case _:
                pass
        if isinstance(found, MediaType) and isinstance(wanted, ScalarType | FlagType):
            return Misfit("MS0306", f"`{found}`: a medium, not a value")
        return Misfit("MS0302", f"this is `{found}`")

    def _fit_tensor(self, wanted: TensorType, found: Type) -> Misfit | None:
        match found:
            case TensorType(dtype, dims):
                if dtype != wanted.dtype:
                    return Misfit("MS0303", f"`{found}`: its elements are {dtype}")
                if len(dims) != len(wanted.dims):
                    return Misfit("MS0304", f"`{found}`: {_rank(len(dims))}")
                for axis, (dim, size) in enumerate(zip(wanted.dims, dims, strict=True)):
                    if misfit := self._fit_dim(dim, size, axis, wanted, found):
                        return misfit
                return None
            case ScalarType() | FlagType():
                if not _number_fits(wanted, found):
                    return Misfit("MS0303", f"this is `{found}`")
                if wanted.dims:
                    return Misfit("MS0304", "one number")
                return None
            case ListType(kind, length):
                is_whole = wanted.dtype in ("i64", "i32")
                if not _number_fits(wanted, ScalarType(kind)) or is_whole != (kind == "int"):
                    return Misfit("MS0303", f"a list of `{kind}`")
                if len(wanted.dims) != 1:
                    return Misfit("MS0304", "a list has one dim")
                if length is None:
                    return None
                return self._fit_dim(wanted.dims[0], constant(length), 0, wanted, found)
            case MediaType("tensor"):
                return None
            case MediaType():
                return Misfit("MS0306", f"`{found}`: a medium, not a tensor")
            case _:
                return Misfit("MS0302", f"this is `{found}`")

    def _fit_tuple(
        self, fields: tuple[tuple[str, Type], ...], entries: tuple[tuple[str, Type], ...]
    ) -> Misfit | None:
        if [name for name, _ in fields] != [name for name, _ in entries]:
            names = ", ".join(f"`{name}`" for name, _ in entries)
            return Misfit("MS0302", f"its fields are {names}")
        for (name, wanted), (_, found) in zip(fields, entries, strict=True):
            if misfit := self.fit(wanted, found):
                return Misfit(misfit.code, f"in its field `{name}`: {misfit.reason}")
        return None

    def _bind_dim(self, wanted: Dim, size: Dim) -> None:
        var = wanted.variable
        if var is not None and self._is_free(var):
            self.bound.setdefault(var, size)

    def _is_free(self, var: DimVar) -> bool:
        return var.origin == "unknown" or (var.scope == self.scope and var.scope != 0)

    def _fit_dim(
        self, wanted: Dim, size: Dim, axis: int, whole: TensorType, found: Type
    ) -> Misfit | None:
        if wanted == size and wanted.value is not None:
            return None
        known = wanted.replace(self.bound.get)
        left = sorted({var for var in known.variables() if self._is_free(var)}, key=str)
        if left and known != size and not self._solve(known, size, left):
            names = " and ".join(f"`{var.name}`" for var in left)
            return Misfit("MS0305", f"`{found}`: {names} of `{whole}` cannot be worked out from it")
        known = known.replace(self.bound.get)
        if known == size:
            return None
        where = "its dim" if len(whole.dims) == 1 else f"dim {axis + 1} of {len(whole.dims)}"
        if str(known) == str(size):
            return Misfit("MS0305", f"`{found}`: {where} is another `{size}`, of any length")
        return Misfit("MS0305", f"`{found}`: {where} is {_size(size)}, not {_size(known)}")

    def _solve(self, known: Dim, size: Dim, left: list[DimVar]) -> bool:
        """Bind the one free dim of a sum in which it stands once, times a number."""
        if len(left) != 1:
            return False
        factor = dict(known.terms).get((left[0],))
        rest = known - variable(left[0]) * constant(factor or 0)
        if factor is None or left[0] in set(rest.variables()):
            return False
        remainder = size - rest
        if any(part % factor for _, part in remainder.terms):
            return False
        self.bound[left[0]] = remainder.quotient(constant(factor), "//")
        return True


def _number_fits(wanted: TensorType, found: ScalarType | FlagType) -> bool:
    if isinstance(found, FlagType):
        return wanted.dtype == "bool"
    match found.kind:
        case "int":
            return wanted.dtype not in ("bool", "u8")
        case "float":
            return wanted.dtype in ("f32", "bf16", "f16")
        case "bool":
            return wanted.dtype == "bool"
        case "str":
            return False


def _rank(count: int) -> str:
    if count == 0:
        return "one number, without a dim"
    return f"{count} dim{'s' if count > 1 else ''}"


def _size(dim: Dim) -> str:
    if any(var.origin == "unknown" for var in dim.variables()):
        return "known only at run time"
    if any(var.origin == "chunk" for var in dim.variables()):
        return "not the same for every chunk"
    return str(dim) if dim.value is not None else f"`{dim}`"

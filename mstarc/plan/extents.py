"""How large reshaped values are: by the spec, or only for a request at hand.

A slice of fixed length may begin anywhere (`x[i : i + 4]`, `x[i]`): each request of a batch takes
its own. What an option or the number of a pass makes longer or shorter is *sized*: its step runs
for one request at a time, whose numbers the host knows.
"""

from collections.abc import Mapping

from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    LetRef,
    Local,
    LoopIndex,
    Option,
    Shape,
    Slice,
    TableItem,
    Unary,
)
from mstarc.ir.types import Dim, DimConst, DimUnknown, TensorType, Type
from mstarc.ir.walking import subexpressions
from mstarc.plan.signatures import where_there

Linear = dict[Expr | None, int]


def is_uniform(expr: Expr) -> bool:
    """Whether a number is the same for all requests: of the spec, or of a pass in a step."""
    return not any(
        isinstance(part, Option | LetRef | TableItem | Local)
        or (isinstance(part, LoopIndex) and "." in part.name)
        for part in subexpressions(expr)
    )


def window_length(start: Expr | None, stop: Expr | None) -> int | None:
    """The length of a slice that is as long for all requests, wherever it begins; else None."""
    if start is None or stop is None:
        return None
    one, other = _linear(start), _linear(stop)
    if one is None or other is None:
        return None
    atoms = one.keys() | other.keys()
    left = {atom: other.get(atom, 0) - one.get(atom, 0) for atom in atoms}
    length = left.pop(None, 0)
    return length if length > 0 and not any(left.values()) else None


def _linear(expr: Expr) -> Linear | None:
    """A number as a sum of multiples; the constant stands at None."""
    match expr:
        case Const(int(value)):
            return {None: value}
        case Unary("-", operand):
            inner = _linear(operand)
            return None if inner is None else {atom: -times for atom, times in inner.items()}
        case Binary("+" | "-" as operator, left, right):
            one, other = _linear(left), _linear(right)
            if one is None or other is None:
                return None
            sign = 1 if operator == "+" else -1
            return {
                atom: one.get(atom, 0) + sign * other.get(atom, 0)
                for atom in one.keys() | other.keys()
            }
        case Binary("*", left, right):
            one, other = _linear(left), _linear(right)
            if one is None or other is None:
                return None
            for some, times in ((one, other), (other, one)):
                if times.keys() <= {None}:
                    return {atom: count * times.get(None, 0) for atom, count in some.items()}
            return {expr: 1}
        case _:
            return {expr: 1}


def is_sized(expr: Expr) -> bool:
    """Whether a value's size differs from request to request by more than its parts' sizes."""
    for part in subexpressions(expr):
        match part:
            case Shape("repeat", (_, times)) if not is_uniform(times):
                return True
            case Slice(_, axes):
                if any(isinstance(axis, tuple) and _is_sized_axis(*axis) for axis in axes):
                    return True
            case _:
                pass
    return False


def _is_sized_axis(start: Expr | None, stop: Expr | None) -> bool:
    ends = [end for end in (start, stop) if end is not None]
    return not all(map(is_uniform, ends)) and window_length(start, stop) is None


def value_type(expr: Expr, types: Mapping[str, Type]) -> TensorType:
    """The type of a reshaped value; a size that only the request knows is `?`."""
    match expr:
        case Local(name):
            type_ = where_there(types[name])
            return type_ if isinstance(type_, TensorType) else TensorType("i64", ())
        case Slice(value, axes):
            whole = value_type(value, types)
            dims: list[Dim] = []
            for index, dim in enumerate(whole.dims):
                axis = axes[index] if index < len(axes) else (None, None)
                if isinstance(axis, tuple):
                    dims.append(_length(dim, *axis))
            return TensorType(whole.dtype, tuple(dims))
        case Shape("repeat", (value, times)):
            whole = value_type(value, types)
            known = isinstance(times, Const) and isinstance(times.value, int)
            return TensorType(whole.dtype, (_dim(times) if known else DimUnknown(), *whole.dims))
        case Shape("stack", arguments):
            whole = value_type(arguments[0], types)
            return TensorType(whole.dtype, (DimConst(len(arguments)), *whole.dims))
        case Shape(_, arguments):
            parts = [value_type(argument, types) for argument in arguments]
            rank = max(1, *(len(part.dims) for part in parts))
            firsts = [p.dims[0] if len(p.dims) == rank else DimConst(1) for p in parts]
            sizes = [dim.value for dim in firsts if isinstance(dim, DimConst)]
            first: Dim = DimConst(sum(sizes)) if len(sizes) == len(parts) else DimUnknown()
            longest = max(parts, key=lambda part: len(part.dims))
            return TensorType(longest.dtype, (first, *longest.dims[1:]))
        case _:
            return TensorType("i64", ())


def _dim(number: Expr) -> Dim:
    assert isinstance(number, Const)
    assert isinstance(number.value, int)
    return DimConst(number.value)


def _length(dim: Dim, start: Expr | None, stop: Expr | None) -> Dim:
    if start is None and stop is None:
        return dim
    length = window_length(start or Const(0), stop)
    if length is not None:
        return DimConst(length)
    match dim, start, stop:
        case DimConst(size), None | Const(int()), None | Const(int()):
            ends = [end.value if isinstance(end, Const) else None for end in (start, stop)]
            begin, behind = (end if isinstance(end, int) else None for end in ends)
            return DimConst(len(range(size)[begin:behind]))
        case _:
            return DimUnknown()

"""Types of what walks may do to tensors: indices, slices, `stack`, `concat` and `repeat`."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names.scope import report_unknown
from mstarc.syntax import ast
from mstarc.typecheck.dims import Dim, DimVar, constant
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import (
    ERROR,
    INT,
    ListType,
    OptionalType,
    ScalarType,
    TensorType,
    Type,
)

FUNCTIONS = ("concat", "repeat", "stack")


def index(base: Type, expr: ast.Index, state: State) -> Type:
    """The type of `base[…]`; the indices are checked to be static whole numbers."""
    if base == ERROR:
        return ERROR
    if isinstance(base, OptionalType):
        refuse_optional(expr.base, base, state)
        return ERROR
    if isinstance(base, ListType):
        if len(expr.items) == 1 and not isinstance(expr.items[0], ast.Slice):
            return ScalarType(base.kind)
        state.error("MS0321", expr.span, "a list of config is taken apart by one index")
        return ERROR
    if not isinstance(base, TensorType):
        state.error(
            "MS0321", expr.base.span, f"`{text_of(expr.base)}` has no dims", f"this is `{base}`"
        )
        return ERROR
    if len(expr.items) > len(base.dims):
        state.error(
            "MS0321",
            expr.span,
            f"`{text_of(expr)}` takes {len(expr.items)} indices of {len(base.dims)} dims",
            f"`{text_of(expr.base)}` is `{base}`",
        )
        return ERROR
    dims: list[Dim] = []
    for axis, dim in enumerate(base.dims):
        item = expr.items[axis] if axis < len(expr.items) else None
        if isinstance(item, ast.Slice):
            size = _slice(item, dim, state)
            if size.value is not None and size.value < 1:
                state.error("MS0321", item.span, "the slice is empty", f"of {dim}: {size.value}")
                return ERROR
            dims.append(size)
        elif item is None:
            dims.append(dim)
        elif not _is_inside(item, dim, state):
            return ERROR
    return TensorType(base.dtype, tuple(dims))


def shape_call(expr: ast.CallExpr, types: list[Type], state: State) -> Type:
    """The type of `concat(a, b)`, `stack(a, b)` or `repeat(a, n)`."""
    name = expr.function.text
    if name not in FUNCTIONS:
        helps = ("other work on tensors is an op's",)
        known: tuple[str, ...] = tuple(FUNCTIONS)
        owners = [n for n, node in state.resolved.symbols.members.items() if name in node.ops]
        if name in state.resolved.symbols.walks:
            helps, known = (f"`{name}` is a walk: a machine runs it with `run {name}(…)`",), ()
        elif owners:
            helps, known = (f"`{name}` is an op of `{owners[0]}`: `{owners[0]}.{name}(…)`",), ()
        report_unknown(expr.function, known, "MS0219", "function", state.sink, helps=helps)
        return ERROR
    for arg in expr.args:
        if arg.name is not None:
            state.error(
                "MS0311", arg.name.span, f"`{name}` takes no names", "give the values in order"
            )
            return ERROR
    if ERROR in types:
        return ERROR
    for arg, type_ in zip(expr.args, types, strict=True):
        if isinstance(type_, OptionalType):
            refuse_optional(arg.value, type_, state)
            return ERROR
    if name == "repeat":
        return _repeat(expr, types, state)
    if (len(types) < 2 and name == "concat") or not types:
        state.error("MS0310", expr.span, f"`{name}` puts several values together", "too few")
        return ERROR
    tensors = [_tensor(type_) for type_ in types]
    first = tensors[0]
    for arg, tensor, type_ in zip(expr.args, tensors, types, strict=True):
        if tensor is None:
            state.error(
                "MS0302", arg.value.span, f"`{name}` puts tensors together", f"this is `{type_}`"
            )
            return ERROR
    assert first is not None
    rows = [tensor for tensor in tensors if tensor is not None]
    return _stack(expr, rows, state) if name == "stack" else _concat(expr, rows, state)


def refuse_optional(expr: ast.Expr, type_: Type, state: State) -> None:
    """Report a value that may be none where a sure one is needed."""
    state.error("MS0307", expr.span, f"`{text_of(expr)}` may be none here", f"this is `{type_}`")


def _stack(expr: ast.CallExpr, rows: list[TensorType], state: State) -> Type:
    for arg, row in zip(expr.args, rows, strict=True):
        if row != rows[0]:
            _unlike(expr, arg, row, rows[0], state)
            return ERROR
    return TensorType(rows[0].dtype, (constant(len(rows)), *rows[0].dims))


def _concat(expr: ast.CallExpr, rows: list[TensorType], state: State) -> Type:
    # One row may be given without its leading dim, as a token before others.
    rank = max(1, *(len(row.dims) for row in rows))
    full = [
        row if len(row.dims) == rank else TensorType(row.dtype, (constant(1), *row.dims))
        for row in rows
    ]
    total = constant(0)
    for arg, row, given in zip(expr.args, full, rows, strict=True):
        if row.dtype != full[0].dtype or row.dims[1:] != full[0].dims[1:]:
            _unlike(expr, arg, given, rows[0], state)
            return ERROR
        total = total + row.dims[0]
    return TensorType(full[0].dtype, (total, *full[0].dims[1:]))


def _repeat(expr: ast.CallExpr, types: list[Type], state: State) -> Type:
    if len(types) != 2 or types[1] != INT:
        state.error(
            "MS0310", expr.span, "`repeat` takes a value and how often", "as in `repeat(z, 4)`"
        )
        return ERROR
    tensor = _tensor(types[0])
    if tensor is None:
        state.error(
            "MS0302", expr.args[0].value.span, "`repeat` takes a tensor", f"this is `{types[0]}`"
        )
        return ERROR
    count = static_dim(expr.args[1].value, state)
    if count is None:
        count = state.fresh_dim(expr, DimVar("?", 0, "unknown"), "unknown")
    return TensorType(tensor.dtype, (count, *tensor.dims))


def _tensor(type_: Type) -> TensorType | None:
    if isinstance(type_, TensorType):
        return type_
    return TensorType("i64") if type_ == INT else None


def _slice(item: ast.Slice, dim: Dim, state: State) -> Dim:
    lower = constant(0) if item.lower is None else static_dim(item.lower, state)
    upper = dim if item.upper is None else static_dim(item.upper, state)
    if lower is None or upper is None:
        return state.fresh_dim(item, DimVar("?", 0, "unknown"), "unknown")
    if lower.value is not None and lower.value < 0:
        lower = dim + lower
    if item.upper is not None and upper.value is not None and upper.value < 0:
        upper = dim + upper
    return upper - lower


def _is_inside(item: ast.Expr, dim: Dim, state: State) -> bool:
    at = static_dim(item, state)
    if at is None or at.value is None or dim.value is None:
        return True
    if -dim.value <= at.value < dim.value:
        return True
    state.error(
        "MS0321", item.span, f"the index {at.value} lies outside", f"the dim has {dim} entries"
    )
    return False


def _unlike(
    expr: ast.CallExpr, arg: ast.Arg, found: TensorType, first: TensorType, state: State
) -> None:
    code = "MS0303" if found.dtype != first.dtype else "MS0305"
    state.sink.report(
        Diagnostic(
            code=code,
            message=f"`{expr.function.text}` of unlike tensors",
            primary=Label(span=arg.value.span, text=f"this is `{found}`"),
        ).label(expr.args[0].value.span, f"this is `{first}`")
    )

"""Types of operators: on numbers of the host anything, on tensors only what a condition needs."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import (
    BOOL,
    ERROR,
    FLOAT,
    INT,
    FlagType,
    ListType,
    ScalarType,
    TensorType,
    Type,
)

_DEVICE_BOOL = TensorType("bool")


def is_truth(type_: Type) -> bool:
    """Whether a type is a condition's: of the host, or one truth value on the device."""
    return type_ in (BOOL, _DEVICE_BOOL) or isinstance(type_, FlagType)


def list_type(items: list[Type], expr: ast.List, state: State) -> Type:
    """The type of a list of values, which must be of one kind."""
    if ERROR in items:
        return ERROR
    kinds = {item.kind for item in items if isinstance(item, ScalarType)}
    if kinds == {"int", "float"}:
        kinds = {"float"}
    if len(kinds) != 1 or not all(isinstance(item, ScalarType) for item in items):
        state.error(
            "MS0315", expr.span, "the values of a list are not of one kind", "a list of one kind"
        )
        return ERROR
    return ListType(kinds.pop(), len(items))


def negative(operand: Type, expr: ast.Unary, state: State) -> Type:
    """The type of `-x`."""
    if operand == ERROR or operand in (INT, FLOAT):
        return operand
    if isinstance(operand, TensorType):
        _refuse_tensor(expr.span, expr, state)
        return ERROR
    _refuse(expr.operand, operand, "a number", state)
    return ERROR


def binary(left: Type, right: Type, expr: ast.Binary | ast.Compare, state: State) -> Type:
    """The type of `left op right`."""
    if ERROR in (left, right):
        return ERROR
    if isinstance(expr, ast.Compare):
        return _comparison(left, right, expr, state)
    if isinstance(left, TensorType) or isinstance(right, TensorType):
        _refuse_tensor(expr.span, expr, state)
        return ERROR
    for side, type_ in ((expr.left, left), (expr.right, right)):
        if type_ not in (INT, FLOAT):
            _refuse(side, type_, "a number", state)
            return ERROR
    if expr.op in ("/", "//", "%") and _is_zero(expr.right, state):
        state.sink.report(
            Diagnostic(
                code="MS0315",
                message=f"`{text_of(expr)}` divides by zero",
                primary=Label(span=expr.right.span, text="this is 0"),
                helps=("divide by another number",),
            )
        )
        return ERROR
    if expr.op == "/":
        return FLOAT
    return INT if left == right == INT else FLOAT


def _is_zero(divisor: ast.Expr, state: State) -> bool:
    """Whether a divisor is 0 in each request."""
    if isinstance(divisor, ast.Float):
        return divisor.value == 0
    size = static_dim(divisor, state)
    return size is not None and size.value == 0


def member(item: Type, container: Type, expr: ast.Member, state: State) -> Type:
    """The type of `item in container`."""
    if ERROR in (item, container):
        return ERROR
    if not isinstance(container, ListType):
        text = text_of(expr.container)
        state.sink.report(
            Diagnostic(
                code="MS0315",
                message=f"`{text}` is not a list",
                primary=Label(span=expr.container.span, text=f"this is `{container}`"),
                helps=(
                    f"one value is compared by `{text_of(expr.item)} == {text}`, and a list is "
                    "declared as `name : [int] = [1, 2]`",
                ),
            )
        )
        return ERROR
    if isinstance(item, TensorType) and not item.dims and item.dtype in ("i64", "i32"):
        found: ScalarType | None = INT
    else:
        found = item if isinstance(item, ScalarType) else None
    if found is None or found.kind != container.kind:
        _refuse(expr.item, item, f"`{container.kind}`, as the list holds", state)
        return ERROR
    return _DEVICE_BOOL if isinstance(item, TensorType) else BOOL


def logical(types: list[Type], sides: list[ast.Expr], state: State) -> Type:
    """The type of `and`, `or` and `not`."""
    if ERROR in types:
        return ERROR
    for side, type_ in zip(sides, types, strict=True):
        if not is_truth(type_):
            _refuse(side, type_, "a condition", state)
            return ERROR
    return _DEVICE_BOOL if _DEVICE_BOOL in types else BOOL


def _comparison(left: Type, right: Type, expr: ast.Compare, state: State) -> Type:
    for side, type_ in ((expr.left, left), (expr.right, right)):
        if isinstance(type_, TensorType) and type_.dims:
            state.sink.report(
                Diagnostic(
                    code="MS0317",
                    message=f"`{text_of(expr)}` compares a whole tensor",
                    primary=Label(span=side.span, text=f"this is `{type_}`"),
                    helps=(
                        "a condition is over single values: let an op give the one that counts",
                    ),
                )
            )
            return ERROR
    kinds = [_comparable(type_) for type_ in (left, right)]
    if kinds[0] is None or kinds[1] is None or kinds[0] != kinds[1]:
        diagnostic = Diagnostic(
            code="MS0315",
            message=f"`{left}` and `{right}` cannot be compared",
            primary=Label(span=expr.span, text=f"`{expr.op}` compares values of one kind"),
        )
        if isinstance(right, ListType) and expr.op in ("==", "!="):
            asked = f"{text_of(expr.left)} in {text_of(expr.right)}"
            meant = asked if expr.op == "==" else f"not {asked}"
            diagnostic = diagnostic.help(f"`{meant}` asks whether the list holds it")
        state.sink.report(diagnostic)
        return ERROR
    if kinds[0] in ("text", "truth") and expr.op not in ("==", "!="):
        state.error(
            "MS0315",
            expr.span,
            f"values of `{left}` have no order",
            f"only `==` and `!=` compare them, not `{expr.op}`",
        )
        return ERROR
    return _DEVICE_BOOL if any(isinstance(t, TensorType) for t in (left, right)) else BOOL


def _comparable(type_: Type) -> str | None:
    match type_:
        case ScalarType("int" | "float"):
            return "number"
        case ScalarType("str"):
            return "text"
        case ScalarType("bool") | FlagType() | TensorType("bool"):
            return "truth"
        case TensorType():
            return "number"
        case _:
            return None


def _refuse(expr: ast.Expr, type_: Type, wanted: str, state: State) -> None:
    state.error("MS0315", expr.span, f"`{text_of(expr)}` is not {wanted}", f"this is `{type_}`")


def _refuse_tensor(span: Span, expr: ast.Expr, state: State) -> None:
    state.sink.report(
        Diagnostic(
            code="MS0317",
            message=f"`{text_of(expr)}` computes with tensors",
            primary=Label(span=span, text="arithmetic on tensors belongs in an op"),
            notes=(
                "a walk says what flows where, and reshapes: indices, `stack`, `concat`, `repeat`",
            ),
            helps=("give a node an op that computes this",),
        )
    )

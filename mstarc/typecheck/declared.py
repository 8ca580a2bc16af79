"""Types as written to types: of config, fields of the request, parameters, results and items."""

from collections.abc import Callable
from typing import assert_never

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label, did_you_mean
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.syntax.foreign_words import GENERIC_TYPES
from mstarc.typecheck.constants import evaluate
from mstarc.typecheck.dims import Dim, DimVar, constant, variable
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import (
    DTYPES,
    ERROR,
    FLAG,
    INT,
    MEDIA_KINDS,
    SCALAR_KINDS,
    ListType,
    MediaType,
    OptionalType,
    PartsType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)


def declared_type(type_: ast.Type, scope: int, state: State, *, tensors: bool) -> Type:
    """The type that `type_` says. Its free dims belong to `scope`.

    `tensors` says whether a bare word such as `bool` means a tensor of one number (ops, walks and
    streams) or a value of the host (config and options).
    """
    match type_:
        case ast.ScalarType():
            return _word(type_.name, state, tensors=tensors)
        case ast.TensorType():
            dims = tuple(_dim(dim, scope, state) for dim in type_.dims)
            is_open = any(
                isinstance(name, ast.Name) and state.resolved.meaning(name) is None
                for dim in type_.dims
                for name in ast.descendants(dim)
            )
            for dtype in DTYPES:
                if dtype == type_.dtype.text:
                    # A name that means nothing has been reported: any size may be meant.
                    return ERROR if is_open else TensorType(dtype, dims)
            return _unknown(type_.dtype, DTYPES, "element type", state)
        case ast.MediaType():
            return _media(type_, state)
        case ast.PartsType():
            kinds = tuple(_media_word(kind, state) for kind in type_.kinds)
            return PartsType(tuple(kind for kind in kinds if isinstance(kind, MediaType)))
        case ast.ListType():
            for kind in SCALAR_KINDS:
                if kind == type_.element.text:
                    return ListType(kind)
            return _unknown(type_.element, SCALAR_KINDS, "type of list items", state)
        case ast.TupleType():
            return TupleType(
                tuple(
                    (entry.name.text, declared_type(entry.type, scope, state, tensors=tensors))
                    for entry in type_.fields
                )
            )
        case ast.OptionalType():
            inner = declared_type(type_.inner, scope, state, tensors=tensors)
            return ERROR if inner == ERROR else OptionalType(inner)
        case _:
            assert_never(type_)


def dim_of(expr: ast.Expr, state: State, leaf: Callable[[ast.Name], Dim | None]) -> Dim | None:
    """The size that an expression over whole numbers says; `leaf` says what a name is.

    None where it is none: a float, a comparison, a name that `leaf` does not know.
    """
    match expr:
        case ast.Int():
            return constant(expr.value)
        case ast.Name():
            return leaf(expr)
        case ast.Unary():
            inner = dim_of(expr.operand, state, leaf)
            return None if inner is None else constant(0) - inner
        case ast.Binary():
            left = dim_of(expr.left, state, leaf)
            right = dim_of(expr.right, state, leaf)
            if left is None or right is None:
                return None
            match expr.op:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "//" | "%":
                    return None if right.value == 0 else left.quotient(right, expr.op)
                case "/":
                    return None
        case _:
            return None


def let_dim(symbol: Symbol, state: State, seen: tuple[Symbol, ...] = ()) -> Dim:
    """The size that a `let` of the spec is: as it works out, or itself where it is no whole number.

    A let that is computed from itself is reported elsewhere; here it stands for itself.
    """

    def leaf(name: ast.Name) -> Dim | None:
        inner = state.resolved.meaning(name)
        if inner is None:
            return None
        if inner.kind == "let":
            return let_dim(inner, state, (*seen, symbol))
        return _dim_name(name, 0, state) if inner.kind in ("config", "option") else None

    known = None if symbol in seen else dim_of(symbol.of(ast.Let).value, state, leaf)
    return variable(DimVar(symbol.name, 0, "request")) if known is None else known


def _dim(dim: ast.Dim, scope: int, state: State) -> Dim:
    if isinstance(dim, ast.UnknownDim):
        unknown = DimVar("?", state.new_scope(), "unknown")
        return variable(unknown)

    def leaf(name: ast.Name) -> Dim | None:
        return _dim_name(name, scope, state)

    size = dim_of(dim, state, leaf)
    if size is None:
        if all(
            state.resolved.meaning(name) is not None
            for name in ast.descendants(dim)
            if isinstance(name, ast.Name)
        ):
            _refuse_dim(dim, state)
        return variable(DimVar("?", state.new_scope(), "unknown"))
    if size.value is not None and size.value < 1:
        state.error("MS0323", dim.span, f"`{text_of(dim)}` is not a size", f"it is {size.value}")
    return size


def _refuse_dim(dim: ast.Expr, state: State) -> None:
    diagnostic = Diagnostic(
        code="MS0323",
        message=f"`{text_of(dim)}` is not a size",
        primary=Label(
            span=dim.span, text="a size is a whole number, a name of one, or `+ - * // %` of them"
        ),
    )
    parts = list(ast.descendants(dim))
    for part in parts:
        symbol = state.resolved.meaning(part) if isinstance(part, ast.Name) else None
        if symbol is None or symbol.kind not in ("option", "let"):
            continue
        type_ = state.fields.get(symbol.name, INT)
        if type_ in (INT, ERROR):
            continue
        diagnostic = diagnostic.label(symbol.declaration.span, f"is `{type_}`, and no `int`")
        if symbol.kind == "let":
            parts.extend(ast.descendants(symbol.of(ast.Let).value))
    if any(isinstance(part, ast.Binary) and part.op == "/" for part in parts):
        diagnostic = diagnostic.help("`//` divides whole numbers, downwards; `/` gives a `float`")
    state.sink.report(diagnostic)


def _dim_name(name: ast.Name, scope: int, state: State) -> Dim | None:
    symbol = state.resolved.meaning(name)
    if symbol is None:
        return None
    match symbol.kind:
        case "config":
            value = state.config.get(symbol.name)
            if value is None:
                return variable(DimVar(symbol.name, 0, "request"))
            return constant(value) if type(value) is int else None
        case "option" | "let" if state.fields.get(symbol.name, INT) not in (INT, ERROR):
            return None
        case "option":
            return variable(DimVar(symbol.name, 0, "request"))
        case "let":
            return let_dim(symbol, state)
        case "parameter":
            return variable(DimVar(symbol.name, scope, "request"))
        case "dim":
            return variable(DimVar(symbol.name, scope))
        case _:
            return None


def _word(name: ast.Name, state: State, *, tensors: bool) -> Type:
    if name.text == "flag":
        return FLAG
    if name.text == "bool" and tensors:
        return TensorType("bool")
    for kind in SCALAR_KINDS:
        if kind == name.text:
            return ScalarType(kind)
    for dtype in DTYPES:
        if dtype == name.text:
            return TensorType(dtype)
    for media in MEDIA_KINDS:
        if media == name.text:
            return MediaType(media)
    return _unknown(name, (*SCALAR_KINDS, "flag", *DTYPES, *MEDIA_KINDS), "type", state)


def _media(type_: ast.MediaType, state: State) -> Type:
    if type_.name.text != "audio":
        if type_.name.text in MEDIA_KINDS:
            state.error(
                "MS0301",
                type_.argument.span,
                f"`{type_.name.text}` takes nothing in brackets",
                "only `audio` has a number: its sampling rate",
            )
            return ERROR
        if type_.name.text in DTYPES:
            written = f"{type_.name.text}[{text_of(type_.argument)}]"
            state.sink.report(
                Diagnostic(
                    code="MS0301",
                    message=f"the dims of `{type_.name.text}` stand in parentheses",
                    primary=Label(span=type_.span, text="dims stand in square brackets"),
                    helps=(f"write `{written}`",),
                    fix=Fix(
                        message=f"write `{written}`",
                        edits=(Edit(span=type_.span, text=written),),
                        applicability="safe",
                    ),
                )
            )
            return ERROR
        return _unknown(type_.name, ("audio",), "type with a number in brackets", state)
    rate = evaluate(type_.argument, state.config, state.resolved, state.sink)
    if rate is None:
        return ERROR
    if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
        state.error(
            "MS0301", type_.argument.span, "a sampling rate is a number of hertz", f"{rate} is not"
        )
        return ERROR
    return MediaType("audio", rate)


def _media_word(name: ast.Name, state: State) -> Type:
    for media in MEDIA_KINDS:
        if media == name.text:
            return MediaType(media)
    return _unknown(name, MEDIA_KINDS, "kind of part", state)


_FOREIGN = {
    "string": "str",
    "int64": "i64",
    "int32": "i32",
    "float32": "f32",
    "fp32": "f32",
    "float16": "f16",
    "fp16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "uint8": "u8",
    "boolean": "bool",
    "sound": "audio",
    "picture": "image",
    "wav": "audio",
}


def _unknown(name: ast.Name, known: tuple[str, ...], what: str, state: State) -> Type:
    diagnostic = Diagnostic(
        code="MS0301",
        message=f"there is no {what} `{name.text}`",
        primary=Label(span=name.span, text="not a type here"),
    )
    foreign = _FOREIGN.get(name.text.lower())
    near = (foreign,) if foreign in known else did_you_mean(name.text, known)
    if name.text in GENERIC_TYPES:
        diagnostic = diagnostic.help(GENERIC_TYPES[name.text])
    elif near:
        listed = " or ".join(f"`{item}`" for item in near)
        diagnostic = diagnostic.help(f"did you mean {listed}?")
    else:
        diagnostic = diagnostic.help(f"what there is: {', '.join(f'`{item}`' for item in known)}")
    state.sink.report(diagnostic)
    return ERROR

"""Parse expressions, types, dims and policies: the inverse of `print_exprs`."""

from typing import cast, get_args

from mstarc.ir.exprs import (
    Binary,
    BinaryOperator,
    Const,
    Expr,
    Field,
    Has,
    Input,
    LetRef,
    Local,
    LoopIndex,
    Member,
    Option,
    PartAttribute,
    Shape,
    Slice,
    TableItem,
    Unary,
    Wants,
)
from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.print_exprs import EXPR_WORDS
from mstarc.ir.types import (
    Dim,
    DimBinary,
    DimConst,
    DimOperator,
    DimUnknown,
    DimVar,
    DType,
    FlagType,
    ListType,
    MediaKind,
    MediaType,
    OptionalType,
    PartsType,
    ScalarKind,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)

Constant = int | float | bool | str
_DTYPES = frozenset(get_args(DType))
_SCALARS = frozenset(get_args(ScalarKind))
_MEDIA = frozenset(get_args(MediaKind))
# From the loosest to the tightest.
_PRECEDENCE: dict[str, int] = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "//", "%"), 6),
}
_NOT = 3
_WORDS: dict[str, int | float | bool | None] = {
    "none": None,
    "true": True,
    "false": False,
    "inf": float("inf"),
    "nan": float("nan"),
}


def parse_constant(cursor: Cursor) -> Constant | tuple[Constant, ...] | None:
    """A literal."""
    if cursor.accept("["):
        items: list[Constant] = []
        while not cursor.accept("]"):
            item = parse_constant(cursor)
            if item is None or isinstance(item, tuple):
                raise cursor.fail("a number, a truth value or a string")
            items.append(item)
            if not cursor.at("]"):
                cursor.expect(",")
        return tuple(items)
    token = cursor.token
    if token.kind == "string":
        return cursor.take().text
    if token.kind == "number":
        cursor.take()
        return int(token.text) if token.text.isdigit() else float(token.text)
    if cursor.at("-") and (cursor.ahead().kind == "number" or cursor.ahead().text == "inf"):
        cursor.take()
        value = parse_constant(cursor)
        assert isinstance(value, int | float)
        return -value
    if token.kind == "name" and token.text in _WORDS:
        cursor.take()
        return _WORDS[token.text]
    raise cursor.fail("a literal")


def parse_scalar(cursor: Cursor) -> Constant:
    """A literal that is no list and not none."""
    value = parse_constant(cursor)
    if value is None or isinstance(value, tuple):
        raise cursor.fail("a number, a truth value or a string")
    return value


def parse_exprs(cursor: Cursor, close: str) -> tuple[Expr, ...]:
    """Expressions with commas between, up to and with `close`."""
    items: list[Expr] = []
    while not cursor.accept(close):
        items.append(parse_expr(cursor))
        if not cursor.at(close):
            cursor.expect(",")
    return tuple(items)


def parse_expr(cursor: Cursor, loosest: int = 1) -> Expr:
    """An expression whose operators bind at least as tightly as `loosest`."""
    left = _parse_unary(cursor)
    while cursor.token.kind in ("name", "op"):
        operator = cursor.token.text
        precedence = _PRECEDENCE.get(operator, 0)
        if precedence < loosest:
            break
        cursor.take()
        right = parse_expr(cursor, precedence + 1)
        if operator == "in":
            left = Member(left, right)
        else:
            left = Binary(cast(BinaryOperator, operator), left, right)
    return left


def _parse_unary(cursor: Cursor) -> Expr:
    if cursor.accept("not"):
        return Unary("not", parse_expr(cursor, _NOT + 1))
    if cursor.at("-") and cursor.ahead().text == "(":
        cursor.take()
        cursor.expect("(")
        operand = parse_expr(cursor)
        cursor.expect(")")
        return Unary("-", operand)
    return _parse_postfix(cursor)


def _parse_postfix(cursor: Cursor) -> Expr:
    expr = _parse_atom(cursor)
    while True:
        if cursor.accept("."):
            expr = Field(expr, cursor.name("the name of a field"))
        elif cursor.accept("["):
            axes: list[Expr | tuple[Expr | None, Expr | None]] = []
            while not cursor.accept("]"):
                axes.append(_parse_axis(cursor))
                if not cursor.at("]"):
                    cursor.expect(",")
            expr = Slice(expr, tuple(axes))
        else:
            return expr


def _parse_axis(cursor: Cursor) -> Expr | tuple[Expr | None, Expr | None]:
    start = None if cursor.at(":") else parse_expr(cursor)
    if not cursor.accept(":"):
        if start is None:
            raise cursor.fail("an index")
        return start
    stop = None if cursor.at(",") or cursor.at("]") else parse_expr(cursor)
    return (start, stop)


def _parse_atom(cursor: Cursor) -> Expr:
    token = cursor.token
    match token.kind:
        case "value":
            return Local(cursor.take().text)
        case "option":
            return Option(cursor.take().text)
        case "input":
            return Input(cursor.take().text)
        case "index":
            return LoopIndex(cursor.take().text)
        case "op" if token.text == "(":
            cursor.take()
            expr = parse_expr(cursor)
            cursor.expect(")")
            return expr
        case "name" if cursor.ahead().text == "(" and token.text not in EXPR_WORDS:
            return _parse_named(cursor)
        case "string" if cursor.ahead().text == "(":
            return _parse_named(cursor)
        case "name":
            return _parse_word(cursor)
        case _:
            return Const(parse_constant(cursor))


def _parse_named(cursor: Cursor) -> Expr:
    name = cursor.name()
    cursor.expect("(")
    value = parse_constant(cursor)
    cursor.expect(")")
    return Const(value, name)


def _parse_word(cursor: Cursor) -> Expr:
    word = cursor.token.text
    if word in _WORDS:
        return Const(parse_constant(cursor))
    if word not in ("let", "table", "part", "wants", "has", "stack", "concat", "repeat"):
        raise cursor.fail("an expression")
    cursor.take()
    match word:
        case "let":
            return LetRef(cursor.name())
        case "table":
            table = cursor.name()
            cursor.expect("[")
            index = parse_expr(cursor)
            cursor.expect("]")
            return TableItem(table, index)
        case "part":
            part = cursor.name()
            cursor.expect(".")
            return PartAttribute(part, cursor.name())
        case "wants":
            return Wants(cursor.name())
        case "has":
            return Has(cursor.name())
        case "stack" | "concat" | "repeat":
            cursor.expect("(")
            return Shape(word, parse_exprs(cursor, ")"))
        case _:
            raise AssertionError(word)


def parse_dim(cursor: Cursor) -> Dim:
    """A size: an atom, or two with an operator between; `* // %` bind tighter than `+ -`."""
    return _parse_dim(cursor, 5)


def _parse_dim(cursor: Cursor, loosest: int) -> Dim:
    left = _parse_dim_atom(cursor)
    while cursor.token.kind == "op" and cursor.token.text in ("+", "-", "*", "//", "%"):
        operator = cursor.token.text
        if _PRECEDENCE[operator] < loosest:
            break
        cursor.take()
        right = _parse_dim(cursor, _PRECEDENCE[operator] + 1)
        left = DimBinary(cast(DimOperator, operator), left, right)
    return left


def _parse_dim_atom(cursor: Cursor) -> Dim:
    if cursor.accept("?"):
        return DimUnknown()
    if cursor.accept("("):
        dim = parse_dim(cursor)
        cursor.expect(")")
        return dim
    if cursor.token.kind == "option":
        return DimVar(cursor.take().text, request=True)
    if cursor.token.kind in ("name", "string"):
        return DimVar(cursor.take().text)
    return DimConst(cursor.integer())


def parse_type(cursor: Cursor) -> Type:
    """A type."""
    type_ = _parse_type_atom(cursor)
    while cursor.at("or") and cursor.ahead().text == "none":
        cursor.take()
        cursor.take()
        type_ = OptionalType(type_)
    return type_


def _parse_type_atom(cursor: Cursor) -> Type:
    if cursor.accept("["):
        kinds: list[MediaType] = []
        while not cursor.accept("]"):
            kinds.append(_parse_media(cursor))
            if not cursor.at("]"):
                cursor.expect("|")
        return PartsType(tuple(kinds))
    if cursor.accept("("):
        fields: list[tuple[str, Type]] = []
        while not cursor.accept(")"):
            name = cursor.name("the name of a field")
            cursor.expect(":")
            fields.append((name, parse_type(cursor)))
            if not cursor.at(")"):
                cursor.expect(",")
        return TupleType(tuple(fields))
    word = cursor.token.text
    if word == "flag":
        cursor.take()
        return FlagType()
    if word == "list":
        cursor.take()
        cursor.expect("(")
        kind = cursor.name("the kind of a list")
        if kind not in _SCALARS:
            raise cursor.fail("the kind of a list")
        cursor.expect(")")
        return ListType(cast(ScalarKind, kind))
    if word in _MEDIA:
        return _parse_media(cursor)
    if word in _DTYPES and (word != "bool" or cursor.ahead().text == "["):
        cursor.take()
        return TensorType(cast(DType, word), _parse_dims(cursor))
    if word in _SCALARS:
        cursor.take()
        return ScalarType(cast(ScalarKind, word))
    raise cursor.fail("a type")


def _parse_dims(cursor: Cursor) -> tuple[Dim, ...]:
    dims: list[Dim] = []
    if cursor.accept("["):
        while not cursor.accept("]"):
            dims.append(parse_dim(cursor))
            if not cursor.at("]"):
                cursor.expect(",")
    return tuple(dims)


def _parse_media(cursor: Cursor) -> MediaType:
    if cursor.token.text not in _MEDIA:
        raise cursor.fail("a kind of media")
    kind = cast(MediaKind, cursor.take().text)
    rate = None
    if cursor.accept("("):
        rate = cursor.integer()
        cursor.expect(")")
    return MediaType(kind, rate)

"""One-line texts of expressions, types, dims and policies."""

import json
import re
from typing import assert_never

from mstarc.ir.exprs import (
    Binary,
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
from mstarc.ir.graph import Policy, Tail
from mstarc.ir.types import (
    Dim,
    DimBinary,
    DimConst,
    DimUnknown,
    DimVar,
    FlagType,
    ListType,
    MediaType,
    OptionalType,
    PartsType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_VALUE_NAME = re.compile(r"[A-Za-z_]\w*(\.\d+)*", re.ASCII)
EXPR_WORDS = frozenset(
    ("let", "table", "part", "wants", "has", "stack", "concat", "repeat", "none", "true", "false")
) | {"inf", "nan", "not", "in", "and", "or", "run", "loop", "when", "pull"}
"""Words that begin something else than a named constant, also behind `%x =`."""
_SITE = re.compile(r"[\w./]+", re.ASCII)


def format_string(text: str) -> str:
    """A quoted string with JSON's escapes."""
    return json.dumps(text, ensure_ascii=False)


def format_name(name: str) -> str:
    """A name, quoted unless it is an identifier."""
    return name if _IDENTIFIER.fullmatch(name) else format_string(name)


def format_value_name(name: str) -> str:
    """`%token.1`."""
    return "%" + (name if _VALUE_NAME.fullmatch(name) else format_string(name))


def format_site(site: str) -> str:
    """`#decode/0`."""
    return "#" + (site if _SITE.fullmatch(site) else format_string(site))


def format_constant(value: object) -> str:
    """A literal: a number, `true`, a string, a list in brackets, or `none`."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return format_string(value)
        case tuple():
            return "[" + ", ".join(format_constant(item) for item in value) + "]"
        case _:
            raise TypeError(f"no literal: {value!r}")


def format_expr(expr: Expr) -> str:
    """The text of an expression; operands that are not atoms are in parentheses."""
    match expr:
        case Const(value, name):
            if name is None:
                return format_constant(value)
            quoted = name in EXPR_WORDS or not _IDENTIFIER.fullmatch(name)
            return f"{format_string(name) if quoted else name}({format_constant(value)})"
        case Local(name):
            return format_value_name(name)
        case Option(name):
            return "$" + format_name(name)
        case Input(name):
            return "@" + format_name(name)
        case LoopIndex(name):
            return "^" + format_name(name)
        case LetRef(name):
            return f"let {format_name(name)}"
        case TableItem(table, index):
            return f"table {format_name(table)}[{format_expr(index)}]"
        case PartAttribute(part, attribute):
            return f"part {format_name(part)}.{format_name(attribute)}"
        case Wants(output):
            return f"wants {format_name(output)}"
        case Has(name):
            return f"has {format_name(name)}"
        case Field(value, name):
            return f"{_base(value)}.{format_name(name)}"
        case Slice(value, axes):
            return f"{_base(value)}[{', '.join(_axis(axis) for axis in axes)}]"
        case Unary("not", operand):
            return f"not {_operand(operand)}"
        case Unary(_, operand):
            return f"-({format_expr(operand)})"
        case Binary(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case Member(item, items):
            return f"{_operand(item)} in {_operand(items)}"
        case Shape(function, arguments):
            return f"{function}({format_exprs(arguments)})"
        case _:
            assert_never(expr)


def format_exprs(exprs: tuple[Expr, ...]) -> str:
    """Expressions with commas between."""
    return ", ".join(format_expr(expr) for expr in exprs)


def _operand(expr: Expr) -> str:
    text = format_expr(expr)
    return f"({text})" if isinstance(expr, Binary | Unary | Member) else text


def _base(expr: Expr) -> str:
    text = format_expr(expr)
    return text if isinstance(expr, Local | Input | Field | Slice) else f"({text})"


def _axis(axis: "Expr | tuple[Expr | None, Expr | None]") -> str:
    if not isinstance(axis, tuple):
        return format_expr(axis)
    start, stop = (format_expr(end) if end is not None else "" for end in axis)
    return f"{start}:{stop}"


def format_dim(dim: Dim) -> str:
    """`28`, `T`, `$L` for a size known at admission, `?`, or `(1920 * F) - 555`."""
    match dim:
        case DimConst(value):
            return str(value)
        case DimVar(name, request):
            return ("$" if request else "") + format_name(name)
        case DimUnknown():
            return "?"
        case DimBinary(operator, left, right):
            return f"{_dim_operand(left)} {operator} {_dim_operand(right)}"
        case _:
            assert_never(dim)


def _dim_operand(dim: Dim) -> str:
    text = format_dim(dim)
    return f"({text})" if isinstance(dim, DimBinary) else text


def format_type(type_: Type) -> str:
    """`bf16[T, 64]`, `audio(24000)`, `[text | image]`, `(h: f32[4], m: bool[])`, `i64 or none`.

    `bool` is the host's; one bool on a device is `bool[]`.
    """
    match type_:
        case TensorType(dtype, ()):
            return "bool[]" if dtype == "bool" else dtype
        case TensorType(dtype, dims):
            return f"{dtype}[{', '.join(format_dim(dim) for dim in dims)}]"
        case ScalarType(kind):
            return kind
        case FlagType():
            return "flag"
        case MediaType(kind, rate):
            return kind if rate is None else f"{kind}({rate})"
        case PartsType(kinds):
            return "[" + " | ".join(format_type(kind) for kind in kinds) + "]"
        case ListType(kind):
            return f"list({kind})"
        case TupleType(fields):
            inner = ", ".join(f"{format_name(name)}: {format_type(item)}" for name, item in fields)
            return f"({inner})"
        case OptionalType(item):
            return f"{format_type(item)} or none"
        case _:
            assert_never(type_)


def format_policy(policy: Policy) -> str:
    """A chunk policy as the language writes it: `sliding(window = 28, stride = 7)`."""
    match policy.kind:
        case "fixed":
            return f"fixed({policy.size})"
        case "sliding":
            return f"sliding(window = {policy.size}, stride = {policy.stride})"
        case "left_context":
            ramp = f", ramp = ({', '.join(map(str, policy.ramp))})" if policy.ramp else ""
            return f"left_context(chunk = {policy.size}, context = {policy.context}{ramp})"
        case "until":
            stop = f"{format_expr(policy.stop)}, " if policy.stop is not None else ""
            mark = f"mark {format_name(policy.mark)}, " if policy.mark is not None else ""
            return f"until({stop}{mark}max = {policy.size})"
        case _:
            assert_never(policy.kind)


def format_tail(tail: Tail) -> str:
    """`drop`, `short` or `pad(0)`."""
    return f"pad({format_constant(tail.value)})" if tail.kind == "pad" else tail.kind

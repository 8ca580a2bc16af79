"""Expressions as Python: over a request at admission, over tensors in a step, on the host."""

from collections.abc import Callable, Sequence
from typing import assert_never

from mstarc.codegen.pyrepr import LINE_LENGTH, pyrepr
from mstarc.diagnostics import InternalError
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
from mstarc.ir.graph import Program
from mstarc.ir.types import PartsType, ScalarType, TensorType, Type
from mstarc.plan.extents import is_uniform, window_length
from mstarc.plan.naming import attribute, identifier

_PRECEDENCE = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    **dict.fromkeys(("+", "-"), 8),
    **dict.fromkeys(("*", "/", "//", "%"), 9),
}
_BITWISE = {"or": ("|", 5), "and": ("&", 7)}


def constant_name(name: str) -> str:
    """The name in `machines.py` of a config entry."""
    return identifier(name).upper()


class AdmissionExprs:
    """Expressions over `request`, where lets and tables are local names."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parts = [f.name for f in program.inputs if isinstance(f.type, PartsType)]
        self.inputs = {f.name for f in program.inputs}

    def render(self, expr: Expr, outer: int = 0) -> str:
        """Python source with no more parentheses than it needs."""
        match expr:
            case Const(value, name):
                return pyrepr(value) if name is None else constant_name(name)
            case Option(name) | Input(name):
                return f"request.{identifier(name)}"
            case LetRef(name) | LoopIndex(name):
                return identifier(name)
            case TableItem(table, index):
                return f"{identifier(table)}[{self.render(index)}]"
            case Wants(output):
                return _wrap(f"{pyrepr(output)} in request.wants", 4, outer)
            case Has(name):
                return self._has(name, outer)
            case Unary("not", Wants(output)):
                return _wrap(f"{pyrepr(output)} not in request.wants", 4, outer)
            case Unary("not", Has(name)) if name in self.inputs:
                return _wrap(f"request.{identifier(name)} is None", 4, outer)
            case Unary("not", operand):
                return _wrap(f"not {self.render(operand, 3)}", 3, outer)
            case Unary(operator, operand):
                return _wrap(f"{operator}{self.render(operand, 10)}", 10, outer)
            case Binary(operator, left, right):
                level = _PRECEDENCE[operator]
                # A comparison of comparisons would be a chain.
                low = level + 1 if level == 4 else level
                text = f"{self.render(left, low)} {operator} {self.render(right, level + 1)}"
                return _wrap(text, level, outer)
            case Member(item, items):
                return _wrap(f"{self.render(item, 5)} in {self.render(items, 5)}", 4, outer)
            case PartAttribute(part, what):
                return f"{identifier(part)}.{what}"
            case Local() | Field() | Slice() | Shape():
                raise InternalError(f"not known at admission: {expr}", stage="codegen")
            case _:
                assert_never(expr)

    def laid_out(
        self, expr: Expr, indent: int, *, before: int = 0, after: int = 0, outer: int = 0
    ) -> str:
        """The same on several lines where one is too short: broken in front of its operators.

        The first line stands behind `before` characters on a line of that indent, the last in
        front of `after`.
        """
        flat = self.render(expr, outer)
        if indent + before + len(flat) + after <= LINE_LENGTH:
            return flat
        if isinstance(expr, Unary) and expr.operator == "not":
            inner = self.laid_out(expr.operand, indent, before=before + 4, after=after, outer=99)
            return f"not {inner}"
        if not isinstance(expr, Binary):
            return flat
        level = _PRECEDENCE[expr.operator]
        blank = " " * (indent + 4)
        lines = [
            blank + operator + self.laid_out(operand, indent + 4, before=len(operator), outer=least)
            for operator, operand, least in _chain(expr, level)
        ]
        return "\n".join(["(", *lines, f"{' ' * indent})"])

    def generator(
        self,
        value: Expr,
        loops: Sequence[tuple[str, str]],
        indent: int,
        *,
        before: int,
        after: int,
    ) -> str:
        """`tuple(value for index in over)`, with a line for each half where one is too short.

        `loops` are (index, over) pairs, the slowest first.
        """
        behind = " ".join(f"for {identifier(index)} in {over}" for index, over in loops)
        flat = f"tuple({self.render(value)} {behind})"
        if indent + before + len(flat) + after <= LINE_LENGTH:
            return flat
        blank = " " * (indent + 4)
        inner = flat[len("tuple(") : -1]
        if indent + 4 + len(inner) <= LINE_LENGTH:
            return f"tuple(\n{blank}{inner}\n{' ' * indent})"
        first = self.laid_out(value, indent + 4)
        return f"tuple(\n{blank}{first}\n{blank}{behind}\n{' ' * indent})"

    def _has(self, name: str, outer: int) -> str:
        if name in self.inputs:
            return _wrap(f"request.{identifier(name)} is not None", 4, outer)
        parts = f"request.{identifier(self.parts[0])}"
        return f"any(part.kind == {pyrepr(name)} for part in {parts})"


class DeviceExprs:
    """Expressions over tensors with a leading dim of one row a request.

    `name_of` gives a variable's Python name, `list_of` that of a config list on the device,
    `pass_of` that of a loop's index.
    """

    def __init__(
        self,
        name_of: Callable[[str], str],
        list_of: Callable[[Const], str],
        pass_of: Callable[[str], str],
        used: set[str],
    ) -> None:
        self.name_of = name_of
        self.list_of = list_of
        self.pass_of = pass_of
        self.used = used

    def render(self, expr: Expr, type_: Type | None = None, outer: int = 0) -> str:
        """Python source; `type_` is what a call expects here."""
        match expr:
            case Local(name):
                return self.name_of(name)
            case Const(value, name):
                return self._constant(value, name, type_)
            case Option(name) | LetRef(name):
                return f"b.option({pyrepr(name)})"
            case LoopIndex(name) if "." in name:
                return self.pass_of(name)
            case LoopIndex(name):
                return self._number(identifier(name), type_)
            case TableItem(table, index):
                return f"self.{attribute(table)}.at(b, {self.render(index)})"
            case Unary("not", operand):
                return _wrap(f"~{self.render(operand, None, 10)}", 10, outer)
            case Unary(operator, operand):
                return _wrap(f"{operator}{self.render(operand, None, 10)}", 10, outer)
            case Binary(operator, left, right) if operator in _BITWISE:
                symbol, level = _BITWISE[operator]
                text = (
                    f"{self.render(left, None, level)} {symbol} "
                    f"{self.render(right, None, level + 1)}"
                )
                return _wrap(text, level, outer)
            case Binary(operator, left, right):
                level = _PRECEDENCE[operator]
                low = level + 1 if level == 4 else level
                text = (
                    f"{self.render(left, None, low)} {operator} "
                    f"{self.render(right, None, level + 1)}"
                )
                return _wrap(text, level, outer)
            case Member(item, items):
                return f"self.ops.isin({self.render(item)}, {self.render(items)})"
            case Slice(value, axes):
                return self._slice(value, axes)
            case Shape("repeat", (value, times)):
                return f"self.ops.repeat({self._part(value)}, {self._count(times)})"
            case Shape(function, arguments):
                return f"self.ops.{function}({', '.join(map(self._part, arguments))})"
            case Input() | PartAttribute() | Wants() | Has() | Field():
                raise InternalError(f"no device expression: {expr}", stage="codegen")
            case _:
                assert_never(expr)

    def _constant(self, value: object, name: str | None, type_: Type | None) -> str:
        if isinstance(value, tuple):
            return f"self.{self.list_of(Const(value, name))}"
        text = pyrepr(value)
        if name is not None:
            text = constant_name(name)
            self.used.add(text)
        return self._number(text, type_) if isinstance(value, int | float) else text

    def _number(self, text: str, type_: Type | None) -> str:
        if isinstance(type_, TensorType):
            return f"b.full({text}, {pyrepr(type_.dtype)})"
        assert type_ is None or isinstance(type_, ScalarType) or text in ("True", "False")
        return text

    def _part(self, expr: Expr) -> str:
        """A value that is put together with others: a number is one a row."""
        return self.render(expr, TensorType("i64"))

    def _slice(self, value: Expr, axes: tuple[Expr | tuple[Expr | None, Expr | None], ...]) -> str:
        """Plain indices and slices first, then those that differ from row to row."""
        plain: list[str] = []
        own: list[tuple[str, int, str]] = []
        place = 1
        for axis in axes:
            if not isinstance(axis, tuple):
                if is_uniform(axis):
                    plain.append(self._count(axis))
                    continue
                plain.append(":")
                own.append(("pick", place, self.render(axis)))
            elif (length := window_length(*axis)) is not None and not _is_uniform_slice(axis):
                assert axis[0] is not None
                plain.append(":")
                own.append(("window", place, f"{self.render(axis[0])}, {length}"))
            else:
                start, stop = ("" if end is None else self._count(end) for end in axis)
                plain.append(f"{start}:{stop}")
            place += 1
        while plain and plain[-1] == ":":
            plain.pop()
        text = self.render(value, None, 11)
        if plain:
            text = f"{text}[{', '.join([':', *plain])}]"
        for function, at, arguments in reversed(own):
            text = f"self.ops.{function}({text}, {at}, {arguments})"
        return text

    def _count(self, expr: Expr, outer: int = 0) -> str:
        """A number of the host: one that all rows share, or that of the one request."""
        match expr:
            case Option(name) | LetRef(name):
                return f"b.count({pyrepr(name)})"
            case LoopIndex(name) if "." in name:
                return f"self.{identifier(name)}.count(b)"
            case LoopIndex(name):
                return identifier(name)
            case TableItem(table, index):
                return f"b.count({pyrepr(table)}, {self._count(index)})"
            case Unary(operator, operand):
                return _wrap(f"{operator}{self._count(operand, 10)}", 10, outer)
            case Binary(operator, left, right):
                level = _PRECEDENCE[operator]
                text = f"{self._count(left, level)} {operator} {self._count(right, level + 1)}"
                return _wrap(text, level, outer)
            case _:
                return self.render(expr)


def _is_uniform_slice(axis: tuple[Expr | None, Expr | None]) -> bool:
    return all(end is None or is_uniform(end) for end in axis)


class HostExprs:
    """Arguments of a host op: values of one request."""

    def __init__(
        self,
        name_of: Callable[[str], str],
        part_of: Callable[[str], str],
        pass_of: Callable[[str], str],
        used: set[str],
    ) -> None:
        self.name_of = name_of
        self.part_of = part_of
        self.pass_of = pass_of
        self.used = used

    def render(self, expr: Expr, outer: int = 0) -> str:
        """Python source."""
        match expr:
            case Local(name):
                return self.name_of(name)
            case Binary(operator, left, right):
                level = _PRECEDENCE[operator]
                text = f"{self.render(left, level)} {operator} {self.render(right, level + 1)}"
                return _wrap(text, level, outer)
            case Const(value, None):
                return pyrepr(value)
            case Const(_, str() as name):
                self.used.add(constant_name(name))
                return constant_name(name)
            case Option(name) | LetRef(name):
                return f"job.options[{pyrepr(name)}]"
            case Input(name):
                return f"job.input({pyrepr(name)})"
            case PartAttribute(loop, what):
                return f"{self.part_of(loop)}.{what}"
            case LoopIndex(loop):
                return self.pass_of(loop)
            case TableItem(table, index):
                return f"job.options[{pyrepr(table)}][{self.render(index)}]"
            case _:
                raise InternalError(f"no host expression: {expr}", stage="codegen")


def _chain(expr: Expr, level: int) -> list[tuple[str, Expr, int]]:
    """Operands of operators of one precedence from left to right, each behind its operator."""
    if not isinstance(expr, Binary) or _PRECEDENCE[expr.operator] != level or level == 4:
        return [("", expr, level)]
    right = (f"{expr.operator} ", expr.right, level + 1)
    return [*_chain(expr.left, level), right]


def _wrap(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text

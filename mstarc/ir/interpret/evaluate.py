"""Values of expressions."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, assert_never

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
from mstarc.ir.folding import apply_binary
from mstarc.ir.graph import Program
from mstarc.ir.interpret.request import Part, Request, RequestError
from mstarc.ir.interpret.toys import Fields, digest
from mstarc.ir.types import Type
from mstarc.records import dataclass


@dataclass(slots=True)
class Scope:
    """Values and types of names, indices of loops, and parts with their attributes."""

    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    indices: dict[str, int] = field(default_factory=dict)
    parts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def inside(self) -> "Scope":
        """A scope that sees this one and does not change it."""
        return Scope(dict(self.values), dict(self.types), dict(self.indices), dict(self.parts))


class Evaluator:
    """What the request fixes: options, inputs, wants, lets and tables."""

    def __init__(self, program: Program, request: Request) -> None:
        self.inputs = request.inputs
        self.options = {option.name: option.default for option in program.options}
        self.options.update(request.options)
        self.wants = request.wants
        if self.wants is None:
            self.wants = frozenset(o.name for o in program.outputs if not o.optional)
        self.lets = {let.name: let.value for let in program.lets}
        self.tables = {table.name: table for table in program.tables}

    def has(self, name: str) -> bool:
        """Whether the request has an input of this name, or a part of this kind."""
        if self.inputs.get(name) is not None:
            return True
        parts = [
            part for value in self.inputs.values() if isinstance(value, tuple) for part in value
        ]
        return any(isinstance(part, Part) and part.kind == name for part in parts)

    def evaluate(self, expr: Expr, scope: Scope) -> Any:
        """The value of an expression."""
        match expr:
            case Const(value):
                return value
            case Local(name):
                return scope.values[name]
            case Option(name):
                return self.options[name]
            case Input(name):
                return self.inputs.get(name)
            case LetRef(name):
                return self.evaluate(self.lets[name], Scope())
            case TableItem(name, index):
                table = self.tables[name]
                at = self.evaluate(index, scope)
                inner = Scope(values={table.index: at}, indices={table.index: at})
                return self.evaluate(table.value, inner)
            case LoopIndex(name):
                return scope.indices[name]
            case PartAttribute(part, attribute):
                return scope.parts[part][attribute]
            case Wants(output):
                assert self.wants is not None
                return output in self.wants
            case Has(name):
                return self.has(name)
            case Field(value, name):
                inner_value = self.evaluate(value, scope)
                return inner_value[name] if isinstance(inner_value, Fields) else None
            case Unary("not", operand):
                return not self.evaluate(operand, scope)
            case Unary(_, operand):
                return -self.evaluate(operand, scope)
            case Binary("and", left, right):
                return bool(self.evaluate(left, scope)) and bool(self.evaluate(right, scope))
            case Binary("or", left, right):
                return bool(self.evaluate(left, scope)) or bool(self.evaluate(right, scope))
            case Binary(operator, left, right):
                a, b = self.evaluate(left, scope), self.evaluate(right, scope)
                try:
                    return apply_binary(operator, a, b)
                except (ZeroDivisionError, TypeError) as error:
                    raise RequestError(f"`{operator}`: {error}") from error
            case Member(item, items):
                return self.evaluate(item, scope) in self.evaluate(items, scope)
            case Slice(value, axes):
                ends = [
                    tuple(self._end(end, scope) for end in axis)
                    if isinstance(axis, tuple)
                    else self.evaluate(axis, scope)
                    for axis in axes
                ]
                return cut(self.evaluate(value, scope), ends)
            case Shape(function, arguments):
                return shape(function, [self.evaluate(argument, scope) for argument in arguments])
            case _:
                assert_never(expr)

    def _end(self, end: Expr | None, scope: Scope) -> Any:
        return None if end is None else self.evaluate(end, scope)


def cut(value: Any, axes: list[Any]) -> Any:
    """`value[axes]`. A number that stands for a row gives another number for each cut of it."""
    if not axes or value is None:
        return value
    first, *rest = axes
    if not isinstance(value, tuple):
        return digest(value, axes) % 1000
    if isinstance(first, tuple):
        return tuple(cut(row, rest) for row in value[first[0] : first[1]])
    if not -len(value) <= first < len(value):
        raise RequestError(f"index {first} of {len(value)} rows")
    return cut(value[first], rest)


def shape(function: str, arguments: list[Any]) -> Any:
    """`stack` gives a new first dim, `concat` joins rows, `repeat` stacks a value n times."""
    if function == "stack":
        return tuple(arguments)
    if function == "repeat":
        return (arguments[0],) * arguments[1]
    rows: list[Any] = []
    for argument in arguments:
        rows.extend(argument if isinstance(argument, tuple) else (argument,))
    return tuple(rows)

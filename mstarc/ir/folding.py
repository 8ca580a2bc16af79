"""Arithmetic of static expressions: operators on values, and constants folded."""

import operator as operators
from collections.abc import Callable, Mapping
from typing import Any

from mstarc.ir.exprs import Binary, Const, Expr, Member, Unary
from mstarc.ir.walking import map_expr

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
    "//": operators.floordiv,
    "%": operators.mod,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def apply_binary(operator: str, left: Any, right: Any) -> Any:
    """What an operator gives. Raises `ZeroDivisionError` and `TypeError` as Python does."""
    return _OPERATORS[operator](left, right)


def fold(expr: Expr) -> Expr:
    """The expression with constant parts computed; what would fail is left as it is."""
    return map_expr(expr, _fold_one)


def truth(expr: Expr | None) -> bool | None:
    """Whether a condition holds, or None where only a request knows. No condition holds."""
    if expr is None:
        return True
    folded = fold(expr)
    return bool(folded.value) if isinstance(folded, Const) else None


def _fold_one(expr: Expr) -> Expr:
    match expr:
        case Unary("-", Const(int() | float() as value)):
            return Const(-value)
        case Unary("not", Const(value)):
            return Const(not value)
        case Unary("not", Unary("not", Binary() | Member() as inner)):
            return inner
        case Binary("and" | "or" as operator, Const(value), other):
            return other if bool(value) == (operator == "and") else Const(bool(value))
        case Binary("and" | "or" as operator, other, Const(value)):
            return other if bool(value) == (operator == "and") else Const(bool(value))
        case Binary(operator, Const(left), Const(right)):
            try:
                return Const(apply_binary(operator, left, right))
            except (ZeroDivisionError, TypeError, OverflowError):
                return expr
        case Member(Const(item), Const(tuple() as items)):
            return Const(item in items)
        case _:
            return expr

"""The largest value that an expression over options can have: sizes buffers before any request."""

from mstarc.ir.exprs import Binary, Const, Expr, LetRef, Option, Unary
from mstarc.ir.graph import Program

Interval = tuple[float, float]


def upper_bound(expr: Expr, program: Program) -> int | None:
    """The largest value over all requests that the options' domains allow; None if none is."""
    interval = _interval(expr, program)
    if interval is None or interval[1] == float("inf"):
        return None
    return int(interval[1])


def _interval(expr: Expr, program: Program) -> Interval | None:
    match expr:
        case Const(bool() | int() | float() as value):
            return (float(value), float(value))
        case Option(name):
            option = next(o for o in program.options if o.name == name)
            if option.domain is None:
                return None
            numbers = [float(v) for v in option.domain[1] if isinstance(v, int | float)]
            return (min(numbers), max(numbers)) if numbers else None
        case LetRef(name):
            return _interval(next(let.value for let in program.lets if let.name == name), program)
        case Unary("-", operand):
            inner = _interval(operand, program)
            return None if inner is None else (-inner[1], -inner[0])
        case Binary(operator, left, right):
            one, two = _interval(left, program), _interval(right, program)
            return None if one is None or two is None else _combine(operator, one, two)
        case _:
            return None


def _combine(operator: str, one: Interval, two: Interval) -> Interval | None:
    match operator:
        case "+":
            return (one[0] + two[0], one[1] + two[1])
        case "-":
            return (one[0] - two[1], one[1] - two[0])
        case "*":
            corners = [a * b for a in one for b in two]
            return (min(corners), max(corners))
        case "//" | "/" if two[0] > 0:
            corners = [a / b for a in one for b in two]
            return (min(corners), max(corners))
        case "%" if two[0] > 0:
            return (0.0, two[1])
        case _:
            return None

"""Between which numbers an expression of the host stays, whatever a request says.

Rather too wide than too narrow: names count each for itself, so `n - n` is more than 0; but an
index over how many there are, such as `i / (steps - 1)`, is in 0 .. 1. What is inside of bounds
that hold nothing bad needs no search for a witness.
"""

from collections.abc import Callable
from math import inf

from mstarc.names import Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `low` to `high`, both included; either may be infinite."""

    low: float = -inf
    high: float = inf

    def holds(self, number: float) -> bool:
        """Whether the number is inside."""
        return self.low <= number <= self.high


ANY = Interval()


def interval_of(expr: ast.Expr, state: State) -> Interval:
    """Where the value of an expression is."""
    match expr:
        case ast.Int() | ast.Float():
            return Interval(expr.value, expr.value)
        case ast.Unary():
            inner = interval_of(expr.operand, state)
            return Interval(-inner.high, -inner.low)
        case ast.Name():
            return _named(expr, state)
        case ast.Binary():
            right = interval_of(expr.right, state)
            if expr.op == "/" and right.low > 0 and _is_part(expr, state):
                return Interval(0, 1)
            return _computed(expr, interval_of(expr.left, state), right)
        case _:
            return ANY


def of_option(name: str, state: State) -> Interval:
    """What an option's domain allows."""
    option = state.options.get(name)
    if option is None or option.domain is None:
        return ANY
    numbers = [value for value in option.domain[1] if type(value) in (int, float)]
    if len(numbers) != len(option.domain[1]) or not numbers:
        return ANY
    return Interval(float(min(numbers)), float(max(numbers)))  # type: ignore[arg-type]


def _named(name: ast.Name, state: State) -> Interval:
    symbol = state.resolved.meaning(name)
    if symbol is None:
        return ANY
    if symbol.kind == "config":
        value = state.config.get(symbol.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return ANY
        return Interval(value, value)
    if symbol.kind == "option":
        return of_option(symbol.name, state)
    if isinstance(symbol.node, ast.Let):
        return interval_of(symbol.node.value, state)
    length = length_of(symbol)
    if length is None:
        return ANY
    return Interval(0, max(interval_of(length, state).high - 1, 0))


def _is_part(expr: ast.Binary, state: State) -> bool:
    """Whether an index is divided by how many there are, or by the last of them."""
    symbol = state.resolved.meaning(expr.left) if isinstance(expr.left, ast.Name) else None
    length = length_of(symbol) if symbol is not None else None
    sizes = [None if e is None else static_dim(e, state) for e in (length, expr.right)]
    if sizes[0] is None or sizes[1] is None:
        return False
    more = (sizes[0] - sizes[1]).value
    return more is not None and more <= 1


def length_of(index: Symbol) -> ast.Expr | None:
    """How many values the index of a table or of a loop has; None for other names."""
    match index.node:
        case ast.TableDecl() as table if index.kind == "index":
            return table.length
        case ast.Loop() as loop if index.kind == "index":
            return loop.bound.count
        case _:
            return None


def _computed(expr: ast.Binary, left: Interval, right: Interval) -> Interval:
    match expr.op:
        case "+":
            return Interval(left.low + right.low, left.high + right.high)
        case "-":
            return Interval(left.low - right.high, left.high - right.low)
        case "*":
            return _hull(left, right, lambda a, b: 0.0 if 0 in (a, b) else a * b)
        case "/" | "//" if not right.holds(0):
            found = _hull(left, right, lambda a, b: a / b if abs(a) != inf else a * b)
            # `//` rounds down, by less than 1.
            return found if expr.op == "/" else Interval(found.low - 1, found.high)
        case "%" if right.low > 0:
            return Interval(0, right.high)
        case _:
            return ANY


def _hull(a: Interval, b: Interval, of: Callable[[float, float], float]) -> Interval:
    corners = [of(left, right) for left in (a.low, a.high) for right in (b.low, b.high)]
    return Interval(min(corners), max(corners))

"""Static expressions: what the host knows of a request without reading a tensor."""

from collections.abc import Callable

from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.comparisons import MIRRORED, Constant, compare_with, holds
from mstarc.typecheck.declared import dim_of, let_dim
from mstarc.typecheck.dims import Dim, DimVar, constant, variable
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.state import State
from mstarc.typecheck.text import condition_key
from mstarc.typecheck.types import FlagType, ScalarType

FlagLookup = Callable[[Symbol], int | None]


def first_dynamic(expr: ast.Expr, state: State) -> ast.Expr | None:
    """The first part of an expression that only the run knows; None where it is static.

    The types of the expression must be known already (`state.types`).
    """
    match expr:
        case ast.OpCall() | ast.CallExpr():
            return expr
        case ast.Name():
            symbol = state.resolved.meaning(expr)
            if symbol is None or symbol.kind not in ("value", "parameter", "input"):
                return None
            if isinstance(symbol.node, ast.Let):
                return None
            known = isinstance(state.types.get(expr), FlagType | ScalarType)
            return None if known and symbol.kind == "parameter" else expr
        case ast.Attr(base=ast.Name() as base):
            symbol = state.resolved.meaning(base)
            return expr if symbol is not None and symbol.kind != "part" else None
        case ast.Attr():
            return expr
        case _:
            for child in ast.children(expr):
                if isinstance(child, ast.Name | ast.Slice) and isinstance(
                    expr, ast.Wants | ast.Has
                ):
                    continue
                if isinstance(child, ast.Slice):
                    continue
                found = first_dynamic(child, state)  # type: ignore[arg-type]  # children are values
                if found is not None:
                    return found
            return None


def formula(expr: ast.Expr, state: State, flag: FlagLookup | None = None) -> int:
    """The condition of a static expression. `flag` says what a parameter is, where it is known."""
    logic = state.logic
    match expr:
        case ast.Bool():
            return TRUE if expr.value else FALSE
        case ast.And():
            return logic.both(formula(expr.left, state, flag), formula(expr.right, state, flag))
        case ast.Or():
            return logic.either(formula(expr.left, state, flag), formula(expr.right, state, flag))
        case ast.Not():
            return logic.negation(formula(expr.operand, state, flag))
        case ast.Compare():
            return _comparison(expr, state)
        case ast.Name():
            symbol = state.resolved.meaning(expr)
            if symbol is None:
                return logic.atom(f"`{expr.text}`?")
            if flag is not None and (known := flag(symbol)) is not None:
                return known
            if isinstance(symbol.node, ast.Let):
                return formula(symbol.node.value, state, flag)
            if symbol.kind == "config":
                value = state.config.get(symbol.name)
                if isinstance(value, bool):
                    return TRUE if value else FALSE
            return logic.atom(condition_key(expr, state.resolved))
        case _:
            return logic.atom(condition_key(expr, state.resolved))


def wrong_condition(condition: ast.Expr, state: State) -> int:
    """The formula of a condition in which something is wrong, as has been reported."""
    state.wrong.add(condition)
    return state.logic.unknown(f"condition at {condition.span.start}")


def static_dim(expr: ast.Expr, state: State) -> Dim | None:
    """The size that a static expression says; None where it is no whole number known by then."""

    def leaf(name: ast.Name) -> Dim | None:
        symbol = state.resolved.meaning(name)
        if symbol is None:
            return None
        match symbol.kind:
            case "config":
                value = state.config.get(symbol.name)
                return constant(value) if type(value) is int else None
            case "option":
                return variable(DimVar(symbol.name, 0, "request"))
            case "let":
                return let_dim(symbol, state)
            case "parameter":
                return variable(walk_number(symbol, state))
            case _:
                return None

    return dim_of(expr, state, leaf)


def walk_number(symbol: Symbol, state: State) -> DimVar:
    """The size that an `int` parameter of a walk is, inside that walk."""
    for walk in state.walks.values():
        if any(param.decl is symbol.node for param in walk.params):
            return DimVar(symbol.name, walk.scope, "request")
    return DimVar(symbol.name, 0, "request")


def _comparison(expr: ast.Compare, state: State) -> int:
    left, right = _constant(expr.left, state), _constant(expr.right, state)
    if left is not None and right is not None:
        return TRUE if holds(left, expr.op, right) else FALSE
    if right is not None:
        return compare_with(expr.left, expr.op, right, state)
    if left is not None:
        return compare_with(expr.right, MIRRORED[expr.op], left, state)
    logic = state.logic
    keys = [condition_key(side, state.resolved) for side in (expr.left, expr.right)]
    match expr.op:
        case "==" | "!=":
            equal = logic.atom(" == ".join(keys))
            return equal if expr.op == "==" else logic.negation(equal)
        case "<":
            return logic.atom(" < ".join(keys))
        case ">=":
            return logic.negation(logic.atom(" < ".join(keys)))
        case ">":
            return logic.atom(" < ".join(reversed(keys)))
        case "<=":
            return logic.negation(logic.atom(" < ".join(reversed(keys))))


def _constant(expr: ast.Expr, state: State) -> Constant | None:
    match expr:
        case ast.Int() | ast.Float() | ast.Str() | ast.Bool():
            return expr.value
        case ast.Unary(operand=ast.Int() | ast.Float() as operand):
            return -operand.value
        case ast.Name():
            symbol = state.resolved.meaning(expr)
            value = state.config.get(expr.text) if symbol and symbol.kind == "config" else None
            return None if isinstance(value, tuple) else value
        case _:
            return None

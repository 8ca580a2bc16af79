"""Numbers that a spec fixes, and what a request may change."""

from mstarc.lint.base import RuleContext
from mstarc.syntax import ast
from mstarc.typecheck.constants import arithmetic


def constant_number(expr: ast.Expr, context: RuleContext) -> int | float | None:
    """The number that an expression of literals and config always is, or None."""
    match expr:
        case ast.Int() | ast.Float():
            return expr.value
        case ast.Name():
            symbol = context.resolved.meaning(expr)
            if symbol is None or symbol.kind != "config":
                return None
            value = context.typed.config.get(symbol.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            return value
        case ast.Unary():
            number = constant_number(expr.operand, context)
            return None if number is None else -number
        case ast.Binary():
            left = constant_number(expr.left, context)
            right = constant_number(expr.right, context)
            return None if left is None or right is None else arithmetic(expr.op, left, right)
        case _:
            return None


def names_option(expr: ast.Node, context: RuleContext) -> bool:
    """Whether a value depends on the request: on an option, or on a let or table over one."""
    for name in ast.descendants(expr):
        if not isinstance(name, ast.Name):
            continue
        symbol = context.resolved.meaning(name)
        if symbol is None:
            continue
        if symbol.kind == "option":
            return True
        match symbol.node:
            case ast.Let(value=value) | ast.TableDecl(value=value) if symbol.kind in (
                "let",
                "table",
            ):
                if names_option(value, context):
                    return True
    return False

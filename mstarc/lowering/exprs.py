"""Expressions of the tree as expressions of the IR."""

from collections.abc import Callable, Mapping
from typing import assert_never

from mstarc.ir import exprs as ir
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck import Typed

Locals = Callable[[Symbol], ir.Expr | None]
Hoist = Callable[[ast.OpCall], ir.Expr]


def _no_calls(call: ast.OpCall) -> ir.Expr:
    raise AssertionError(f"a call at {call.span.start} where no statement can stand")


class Exprs:
    """Lowers expressions of one body.

    `locals_` says what a value, parameter, index or part is there; `hoist` puts an op call that
    stands inside an expression before the statement, and gives its result.
    """

    def __init__(
        self, typed: Typed, locals_: Mapping[Symbol, ir.Expr], hoist: Hoist = _no_calls
    ) -> None:
        self._typed = typed
        self._locals = locals_
        self._hoist = hoist

    def lower(self, expr: ast.Expr) -> ir.Expr:
        """The IR's expression."""
        match expr:
            case ast.Name():
                return self._name(expr)
            case ast.Int() | ast.Float() | ast.Str() | ast.Bool():
                return ir.Const(expr.value)
            case ast.NoneLit():
                return ir.Const(None)
            case ast.List() | ast.Tuple():
                return ir.Const(tuple(self._constant(item) for item in expr.items))
            case ast.Unary():
                operand = self.lower(expr.operand)
                if isinstance(operand, ir.Const) and isinstance(operand.value, int | float):
                    return ir.Const(-operand.value)
                return ir.Unary("-", operand)
            case ast.Not():
                return ir.Unary("not", self.lower(expr.operand))
            case ast.Binary() | ast.Compare():
                return ir.Binary(expr.op, self.lower(expr.left), self.lower(expr.right))
            case ast.And():
                return ir.Binary("and", self.lower(expr.left), self.lower(expr.right))
            case ast.Or():
                return ir.Binary("or", self.lower(expr.left), self.lower(expr.right))
            case ast.Member():
                return ir.Member(self.lower(expr.item), self.lower(expr.container))
            case ast.Wants() if expr.output.text in self._typed.left_out:
                return ir.Const(False)
            case ast.Wants():
                return ir.Wants(expr.output.text)
            case ast.Has():
                return ir.Has(expr.subject.text)
            case ast.Attr():
                return self._attribute(expr)
            case ast.Index():
                return self._index(expr)
            case ast.CallExpr():
                return self._shape(expr)
            case ast.OpCall():
                return self._hoist(expr)
            case _:
                assert_never(expr)

    def _name(self, name: ast.Name) -> ir.Expr:
        symbol = self._typed.resolved.uses[name]
        match symbol.kind:
            case "config":
                return ir.Const(self._typed.config[symbol.name], symbol.name)
            case "option":
                return ir.Option(symbol.name)
            case "input":
                return ir.Input(symbol.name)
            case "let":
                return ir.LetRef(symbol.name)
            case "item":
                return ir.Local("item")
            case _:
                return self._locals[symbol]

    def _attribute(self, expr: ast.Attr) -> ir.Expr:
        if isinstance(expr.base, ast.Name):
            symbol = self._typed.resolved.uses[expr.base]
            if symbol.kind == "part":
                part = self._locals[symbol]
                assert isinstance(part, ir.Local)
                return ir.PartAttribute(part.name, expr.name.text)
        return ir.Field(self.lower(expr.base), expr.name.text)

    def _index(self, expr: ast.Index) -> ir.Expr:
        if isinstance(expr.base, ast.Name):
            symbol = self._typed.resolved.uses[expr.base]
            if symbol.kind == "table":
                (index,) = expr.items
                assert not isinstance(index, ast.Slice)
                return ir.TableItem(symbol.name, self.lower(index))
        base = self.lower(expr.base)
        axes = tuple(
            (self._end(item.lower), self._end(item.upper))
            if isinstance(item, ast.Slice)
            else self.lower(item)
            for item in expr.items
        )
        return ir.Slice(base, axes)

    def _end(self, expr: ast.Expr | None) -> ir.Expr | None:
        return None if expr is None else self.lower(expr)

    def _shape(self, expr: ast.CallExpr) -> ir.Expr:
        arguments = tuple(self.lower(arg.value) for arg in expr.args)
        match expr.function.text:
            case "stack":
                return ir.Shape("stack", arguments)
            case "concat":
                return ir.Shape("concat", arguments)
            case _:
                return ir.Shape("repeat", arguments)

    def _constant(self, item: ast.Expr) -> int | float | bool | str:
        value = self.lower(item)
        assert isinstance(value, ir.Const)
        assert isinstance(value.value, int | float | bool | str)
        return value.value


def maybe(expr: ast.Expr | None, exprs: Exprs) -> ir.Expr | None:
    """The IR's expression, where there is one."""
    return None if expr is None else exprs.lower(expr)

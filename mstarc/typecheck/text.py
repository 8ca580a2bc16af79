"""Expressions as short text, for messages and to tell conditions apart."""

import re
from typing import assert_never

from mstarc.names import Resolved
from mstarc.syntax import ast

# How tightly an operator binds; a looser operand gets parentheses.
_STRENGTH = {"or": 1, "and": 2, "not": 3, "cmp": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}
_ATOM = 9

# What `condition_key` adds to tell names of different places apart.
_MARKS = re.compile(r" \[[^\]]*@[^\]]*\]")


def text_of(expr: ast.Expr | ast.RunCall | ast.Pull) -> str:
    """The expression as one line of spec text."""
    return _text(expr)[0]


def condition_key(expr: ast.Expr, resolved: Resolved) -> str:
    """Text that is equal only for conditions that are equal: a let stands for what it says."""
    text = text_of(expr)
    marks = []
    for name in ast.descendants(expr):
        if not isinstance(name, ast.Name):
            continue
        symbol = resolved.meaning(name)
        if symbol is not None and symbol.kind in ("parameter", "index", "part", "last", "value"):
            marks.append(f"{name.text}@{symbol.declaration.span.start}")
    return text + (f" [{', '.join(sorted(set(marks)))}]" if marks else "")


def shown(key: str) -> str:
    """A condition's key as people read it."""
    return _MARKS.sub("", key)


def _text(expr: ast.Expr | ast.RunCall | ast.Pull) -> tuple[str, int]:
    match expr:
        case ast.Name():
            return expr.text, _ATOM
        case ast.Int():
            return str(expr.value), _ATOM
        case ast.Float():
            return expr.text, _ATOM
        case ast.Str():
            return f'"{expr.value}"', _ATOM
        case ast.Bool():
            return ("true" if expr.value else "false"), _ATOM
        case ast.NoneLit():
            return "none", _ATOM
        case ast.List():
            return f"[{', '.join(map(text_of, expr.items))}]", _ATOM
        case ast.Tuple():
            return f"({', '.join(map(text_of, expr.items))})", _ATOM
        case ast.Unary():
            return f"-{_inside(expr.operand, 7)}", 7
        case ast.Binary():
            strength = _STRENGTH[expr.op]
            left, right = _inside(expr.left, strength), _inside(expr.right, strength + 1)
            return f"{left} {expr.op} {right}", strength
        case ast.Compare():
            return f"{_inside(expr.left, 5)} {expr.op} {_inside(expr.right, 5)}", 4
        case ast.Member():
            return f"{_inside(expr.item, 5)} in {_inside(expr.container, 5)}", 4
        case ast.And():
            return f"{_inside(expr.left, 2)} and {_inside(expr.right, 3)}", 2
        case ast.Or():
            return f"{_inside(expr.left, 1)} or {_inside(expr.right, 2)}", 1
        case ast.Not():
            return f"not {_inside(expr.operand, 3)}", 3
        case ast.Wants():
            return f"wants {expr.output.text}", 4
        case ast.Has():
            return f"has {expr.subject.text}", 4
        case ast.Attr():
            return f"{_inside(expr.base, _ATOM)}.{expr.name.text}", _ATOM
        case ast.Index():
            items = ", ".join(_index_text(item) for item in expr.items)
            return f"{_inside(expr.base, _ATOM)}[{items}]", _ATOM
        case ast.CallExpr():
            return f"{expr.function.text}({_args(expr.args)})", _ATOM
        case ast.OpCall():
            target = f"{expr.target.node.text}.{expr.target.op.text}"
            return f"{target}({_args(expr.args)})", _ATOM
        case ast.RunCall():
            return f"run {expr.walk.text}({_args(expr.args)})", 0
        case ast.Pull():
            return f"pull {expr.stream.text}{' or none' if expr.or_none else ''}", 0
        case _:
            assert_never(expr)


def _inside(expr: ast.Expr, strength: int) -> str:
    text, own = _text(expr)
    return text if own >= strength else f"({text})"


def _args(args: tuple[ast.Arg, ...]) -> str:
    return ", ".join(
        (f"{arg.name.text} = " if arg.name is not None else "") + text_of(arg.value) for arg in args
    )


def _index_text(item: ast.Expr | ast.Slice) -> str:
    if not isinstance(item, ast.Slice):
        return text_of(item)
    lower = text_of(item.lower) if item.lower is not None else ""
    upper = text_of(item.upper) if item.upper is not None else ""
    return f"{lower}:{upper}"

"""Statements, expressions and types of the IR in the words of the language, for people.

Single assignment is undone (`%token.1` is `token`) and constants have their config names back, so
that a line of a plan reads like the line of the spec that it came from.
"""

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
from mstarc.ir.graph import Call, Emit, Loop, Policy, Send, Value
from mstarc.ir.text import format_policy, format_type
from mstarc.ir.types import Type

_VERSION = re.compile(r"(\.\d+)+$")
_PRECEDENCE = {
    **dict.fromkeys(("or",), 1),
    **dict.fromkeys(("and",), 2),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "//", "%"), 6),
}


def base_name(name: str) -> str:
    """`token` of the value `token.1`."""
    return _VERSION.sub("", name)


def spec_expr(expr: Expr) -> str:
    """An expression as an author writes it, with no more parentheses than it needs."""
    return _expr(expr, 0)


def _expr(expr: Expr, outer: int) -> str:
    match expr:
        case Const(value, name):
            return name if name is not None else _constant(value)
        case Local(name):
            return base_name(name)
        case Option(name) | Input(name) | LetRef(name) | LoopIndex(name):
            return name
        case TableItem(table, index):
            return f"{table}[{spec_expr(index)}]"
        case PartAttribute(part, attribute):
            return f"{part}.{attribute}"
        case Wants(output):
            return f"wants {output}"
        case Has(name):
            return f"has {name}"
        case Field(value, name):
            return f"{_expr(value, 9)}.{name}"
        case Unary("not", operand):
            return _wrap(f"not {_expr(operand, 3)}", 3, outer)
        case Unary(_, operand):
            return _wrap(f"-{_expr(operand, 7)}", 7, outer)
        case Binary(operator, left, right):
            level = _PRECEDENCE[operator]
            text = f"{_expr(left, level)} {operator} {_expr(right, level + 1)}"
            return _wrap(text, level, outer)
        case Member(item, items):
            return _wrap(f"{_expr(item, 4)} in {_expr(items, 5)}", 4, outer)
        case Slice(value, axes):
            inner = ", ".join(_axis(axis) for axis in axes)
            return f"{_expr(value, 9)}[{inner}]"
        case Shape(function, arguments):
            return f"{function}({', '.join(map(spec_expr, arguments))})"
        case _:
            assert_never(expr)


def _wrap(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text


def _axis(axis: Expr | tuple[Expr | None, Expr | None]) -> str:
    if not isinstance(axis, tuple):
        return spec_expr(axis)
    start, stop = ("" if end is None else spec_expr(end) for end in axis)
    return f"{start} : {stop}".strip() if start and stop else f"{start}:{stop}"


def _constant(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(map(_constant, value))}]"
        case _:
            return repr(value)


def results_text(results: tuple[Value | None, ...]) -> str:
    """`code, past = `, or nothing where nothing is taken."""
    if not any(results):
        return ""
    return ", ".join("_" if r is None else base_name(r.name) for r in results) + " = "


def call_text(call: Call) -> str:
    """`token = lm.step(token)`, without its context, unless it is one of an array."""
    arguments = ", ".join(map(spec_expr, call.arguments))
    on = f" on {at(call.context or '', call.index)}" if call.index is not None else ""
    return f"{results_text(call.results)}{call.node}.{call.op}({arguments}){on}"


def at(context: str, index: Expr | None) -> str:
    """`main`, or `dream[2]`."""
    return context if index is None else f"{context}[{spec_expr(index)}]"


def send_text(send: Send) -> str:
    """`codes <- token`."""
    suffix = f" if {spec_expr(send.condition)}" if send.condition is not None else ""
    return f"{send.stream} <- {', '.join(map(spec_expr, send.values))}{suffix}"


def emit_text(emit: Emit) -> str:
    """`speech <- pcm`."""
    suffix = f" if {spec_expr(emit.condition)}" if emit.condition is not None else ""
    return f"{emit.output} <- {spec_expr(emit.value)}{suffix}"


def loop_text(loop: Loop) -> str:
    """`loop max max_tokens while token != eos`."""
    if loop.kind == "times":
        text = f"loop {_expr(loop.bound, 9)} times"
    else:
        text = f"loop max {_expr(loop.bound, 9)}"
    if loop.index is not None:
        text += f" as {loop.index}"
    if loop.condition is not None:
        text += f" while {spec_expr(loop.condition)}"
    if loop.until is not None:
        text += f" until {spec_expr(loop.until)}"
    return text


def policy_text(policy: Policy) -> str:
    """`sliding(window = 28, stride = 7)`."""
    if policy.kind != "until":
        return format_policy(policy)
    stop = policy.mark if policy.stop is None else spec_expr(policy.stop)
    return f"until({stop}, max = {policy.size})"


def type_text(type_: Type) -> str:
    """`i64[T]`."""
    return format_type(type_)

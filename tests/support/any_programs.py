"""Programs of any form, sound or not: every field of every class of the IR may have any value.

What the text of a program must keep. They are made from the type hints of the dataclasses, so that
a field that is added to one is covered at once.
"""

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from random import Random
from typing import Any, Literal, Union

from mstarc.ir import exprs, graph
from mstarc.ir import types as ir_types
from mstarc.ir.graph import Policy, Program, Tail
from mstarc.source import Span

NAMES = ("a", "token.1", "part", "none", "let", "x y", 'q"', "é\n", "when", "_", "9", "true", "")
NUMBERS = (0, 1, -1, 28, 10**9)
REALS = (0.5, -2.0, 1e-7, 1e30, float("inf"))
# How deep each family nests.
LIMITS = {"expr": 3, "statement": 2, "type": 2, "dim": 2}
FAMILIES: tuple[tuple[str, Any], ...] = (
    ("expr", exprs.Expr),
    ("statement", graph.Statement),
    ("type", ir_types.Type),
    ("dim", ir_types.Dim),
)


def any_program(seed: int) -> Program:
    """Any program; the same for the same seed."""
    program = _Maker(Random(seed)).instance(Program)
    assert isinstance(program, Program)
    return program


def _hints(cls: type[Any]) -> dict[str, Any]:
    return dict(_hint_items(cls.__module__, cls.__name__))


@cache
def _hint_items(module: str, name: str) -> tuple[tuple[str, Any], ...]:
    cls = getattr(import_module(module), name)
    return tuple(typing.get_type_hints(cls).items())


@cache
def _family(hint: Any) -> str | None:
    return next((name for name, family in FAMILIES if hint == family), None)


@cache
def _leaves(hint: Any) -> tuple[Any, ...]:
    """Members of a union that hold nothing of the union."""
    return tuple(
        member
        for member in typing.get_args(hint)
        if member is type(None) or not _holds(member, hint)
    )


def _holds(cls: Any, family: Any) -> bool:
    if not isinstance(cls, type) or not hasattr(cls, "__dataclass_fields__"):
        return False
    return any(_mentions(hint, family) for hint in _hints(cls).values())


def _mentions(hint: Any, family: Any) -> bool:
    if hint == family or (hint is graph.Arm and family == graph.Statement):
        return True
    members = typing.get_args(hint)
    if typing.get_origin(hint) in (Union, types.UnionType) and set(members) >= set(
        typing.get_args(family)
    ):
        return True
    return any(_mentions(member, family) for member in members)


@dataclass(slots=True)
class _Maker:
    chance: Random

    def instance(self, cls: type[Any], depths: dict[str, int] | None = None) -> Any:
        depths = depths if depths is not None else dict(LIMITS)
        special = _SPECIAL.get(cls)
        if special is not None:
            return special(self, depths)
        hints = _hints(cls)
        values = {field.name: self.value(hints[field.name], depths) for field in fields(cls)}
        return cls(**(values | self.narrowed(cls, depths)))

    def narrowed(self, cls: type[Any], depths: dict[str, int]) -> dict[str, Any]:
        """Fields whose hint says less than their docstring does."""
        if cls is graph.OptionField:
            kind = self.chance.choice(["range", "set"])
            values = tuple(self.value(int | float | bool | str, depths) for _ in range(2))
            return {"domain": self.chance.choice([None, (kind, values)])}
        if cls is graph.Send:
            return {"values": self.several(exprs.Expr, depths, 1)}
        if cls is graph.Each:
            return {
                "streams": self.several(str, depths, 1),
                "names": self.several(graph.Value, depths, 1),
            }
        return {}

    def several(self, hint: Any, depths: dict[str, int], least: int) -> tuple[Any, ...]:
        count = self.chance.randint(least, 2)
        return tuple(self.value(hint, depths) for _ in range(count))

    def value(self, hint: Any, depths: dict[str, int]) -> Any:
        chance = self.chance
        if hint is str:
            return chance.choice(NAMES)
        if hint is int:
            return chance.choice(NUMBERS)
        if hint is float:
            return chance.choice(REALS)
        if hint is bool:
            return chance.random() < 0.5
        if hint is type(None):
            return None
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Literal:
            return chance.choice(arguments)
        if origin in (Union, types.UnionType):
            return self.member(hint, depths)
        if origin is tuple and arguments[-1] is Ellipsis:
            if _family(arguments[0]) == "statement" and not depths["statement"]:
                return ()
            return self.several(arguments[0], depths, 0)
        if origin is tuple:
            return tuple(self.value(argument, depths) for argument in arguments)
        return self.instance(hint, depths)

    def member(self, hint: Any, depths: dict[str, int]) -> Any:
        family = _family(hint)
        if family is None:
            return self.value(self.chance.choice(typing.get_args(hint)), depths)
        left = depths[family] - 1
        choices = typing.get_args(hint) if left > 0 else _leaves(hint)
        return self.value(self.chance.choice(choices), {**depths, family: max(0, left)})

    def policy(self, depths: dict[str, int]) -> Policy:
        size, other = self.chance.randint(1, 30), self.chance.randint(1, 30)
        match self.chance.randrange(4):
            case 0:
                return Policy(kind="fixed", size=size)
            case 1:
                return Policy(kind="sliding", size=size, stride=other)
            case 2:
                ramp = self.several(int, depths, 0)
                return Policy(kind="left_context", size=size, context=other, ramp=ramp)
            case _:
                stop = self.value(exprs.Expr | None, depths)
                mark = self.value(str | None, depths)
                return Policy(kind="until", size=size, stop=stop, mark=mark)

    def tail(self, depths: dict[str, int]) -> Tail:
        value = self.value(int | float | str | None, depths)
        return self.chance.choice(
            [Tail(kind="drop"), Tail(kind="short"), Tail(kind="pad", value=value)]
        )

    def span(self, depths: dict[str, int]) -> Span:
        start = self.chance.randrange(100)
        return Span(path=self.value(str, depths), start=start, end=start + 5)


_SPECIAL: dict[type[Any], Callable[[_Maker, dict[str, int]], Any]] = {
    Policy: _Maker.policy,
    Tail: _Maker.tail,
    Span: _Maker.span,
}

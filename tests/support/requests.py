"""Requests that a program accepts, made by chance from what it declares."""

from collections.abc import Iterator
from random import Random

from mstarc.ir.graph import InputField, OptionField, Program
from mstarc.ir.interpret import Part, Request, landmarks
from mstarc.ir.types import PartsType, ScalarType

# Options are kept near their lowest values: they bound loops.
SPREAD = 12


def requests_for(program: Program, count: int, seed: int = 0) -> Iterator[Request]:
    """`count` requests; the first asks for everything with the defaults that are small."""
    chance = Random(seed)
    names = [output.name for output in program.outputs]
    sure = [output.name for output in program.outputs if not output.optional]
    for index in range(count):
        wanted = names if index == 0 else [n for n in names if n in sure or chance.random() < 0.5]
        yield Request(
            inputs={field.name: _input(field, chance) for field in program.inputs},
            options={option.name: _option(option, chance) for option in program.options},
            wants=frozenset(wanted),
            tokens=landmarks(program),
        )


def _input(field: InputField, chance: Random) -> object:
    if field.optional and chance.random() < 0.3:
        return None
    if not isinstance(field.type, PartsType):
        return f"input {chance.randrange(1000)}"
    count = max(field.at_least, chance.randrange(4))
    kinds = [kind.kind for kind in field.type.kinds]
    return tuple(
        Part(
            kind=chance.choice(kinds),
            value=f"part {chance.randrange(1000)}",
            role=chance.choice(["user", "assistant"]),
        )
        for _ in range(count)
    )


def _option(option: OptionField, chance: Random) -> object:
    if option.domain is not None and option.domain[0] == "set":
        return chance.choice(option.domain[1])
    match option.type:
        case ScalarType("int"):
            low, high = option.domain[1] if option.domain is not None else (0, SPREAD)
            assert isinstance(low, int)
            assert isinstance(high, int)
            return chance.randint(low, min(high, low + SPREAD))
        case ScalarType("float"):
            low, high = option.domain[1] if option.domain is not None else (0.0, 2.0)
            return chance.choice([low, high, option.default])
        case ScalarType("bool"):
            return chance.random() < 0.5
        case _:
            return option.default

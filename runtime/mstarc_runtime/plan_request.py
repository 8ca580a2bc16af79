"""What a request brings, and what is decided once when it arrives.

Part of `plan_api`, by whose name plans import it. Standard library only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """Mono sound: `samples` is an f32 array in -1 .. 1, `rate` in hertz."""

    samples: Any
    rate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A picture or a film as it came, not decoded: `content` is a file's bytes."""

    kind: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an input of several media, and where it stands among them.

    `value` is a host value of the kind: `str`, `Audio`, `Media`. A part `opens` a turn where the
    role before it is another one, and `closes` it where the next is. Made by `parts_in_order`.
    """

    kind: str
    value: Any
    role: str = "user"
    first: bool = True
    last: bool = True
    opens: bool = True
    closes: bool = True


def parts_in_order(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts, each knowing where it stands."""
    roles = [None, *(part.role for part in parts), None]
    return tuple(
        replace(
            part,
            first=index == 0,
            last=index == len(parts) - 1,
            opens=roles[index] != part.role,
            closes=roles[index + 2] != part.role,
        )
        for index, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What is decided once, when a request arrives.

    `runs` says for each machine whether it runs; `bounds` gives each loop its most passes;
    `options` holds options, lets and tables by name.
    """

    runs: Mapping[str, bool]
    bounds: Mapping[str, int]
    options: Mapping[str, Any]


class RequestRefused(ValueError):
    """A request that the model cannot take: `field` says which part, the message says why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

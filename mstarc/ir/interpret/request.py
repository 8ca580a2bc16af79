"""What goes in and what comes out of an interpretation."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mstarc.ir.chunks import History
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an input that is a sequence of media."""

    kind: str
    value: Any
    role: str = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Inputs by name (a tuple of `Part`s for several media), options that differ from defaults.

    `wants` None asks for every output that is not optional. `tokens` are numbers that toy tokens
    hit often, such as stop tokens (`landmarks` finds those of a program).
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    wants: frozenset[str] | None = None
    tokens: tuple[int, ...] = ()


class RequestError(Exception):
    """The request ends with an error: a need that does not hold, a stream closed too early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`emits` by output, `calls` by site (runs, passes and chunks too), `streams` by name.

    `error` ends a request; `stuck` names machines that wait for ever.
    """

    emits: Mapping[str, tuple[Any, ...]]
    calls: Mapping[str, int]
    streams: Mapping[str, History]
    error: str | None = None
    stuck: tuple[str, ...] = ()

    def is_same_as(self, other: "Outcome") -> bool:
        """Whether a client and the streams that both have see no difference.

        Of two requests that end with the same error, what came before it may differ: machines take
        turns.
        """
        if self.error is not None or other.error is not None:
            return self.error == other.error
        common = self.streams.keys() & other.streams.keys()
        return (
            self.emits == other.emits
            and self.stuck == other.stuck
            and all(self.streams[name] == other.streams[name] for name in common)
        )

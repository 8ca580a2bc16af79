"""When a request came, was let in, made its first output and was over, and where it was meanwhile.

Whoever wants to know hands one in with the request; times are ns of the monotonic clock, 0 for what
has not come. Visits are told by ranks at the end, and only of a request that is traced.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TypeVar

from mstarc_runtime.visits import Visit, Visits

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class RequestTimes:
    """Of one request. `visits`: (process, visit); `via` those of ops that make text of tokens."""

    is_traced: bool = False
    submitted_ns: int = 0
    admitted_ns: int = 0
    made_ns: int = 0
    ended_ns: int = 0
    visits: list[tuple[int, Visit]] = field(default_factory=list)
    via: Visits = field(default_factory=Visits)

    def made(self) -> None:
        """An output has come."""
        if not self.made_ns:
            self.made_ns = monotonic_ns()

    def timed(self, name: str, work: Callable[[], T]) -> Callable[[], T]:
        """The work, noted as a visit of `name`."""

        def noted() -> T:
            begun = monotonic_ns()
            result = work()
            self.via.add(name, begun, monotonic_ns())
            return result

        return noted

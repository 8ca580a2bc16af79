"""When a request was at which step of a rank: noted where it is traced, and told at its end.

A visit lasts from a row's arrival at a step, ready or waiting for a stream, to its leaving; all
passes of a loop that stays at one step are one visit. Times are of the monotonic clock, which the
processes of a machine share.
"""

import time
from dataclasses import dataclass, field

Visit = tuple[str, int, int, int, int]
"""Step, how often, first arrival, last leaving, time there: ns."""


@dataclass(slots=True, kw_only=True)
class Visits:
    """The visits of one request on one rank."""

    _open: dict[str, int] = field(default_factory=dict)
    _over: dict[str, list[int]] = field(default_factory=dict)

    def enter(self, step: str) -> None:
        """A row has arrived at a step. Harmless where it is there already."""
        self._open.setdefault(step, time.monotonic_ns())

    def leave(self, step: str) -> None:
        """A row goes on from a step."""
        begun = self._open.pop(step, None)
        if begun is not None:
            self.add(step, begun, time.monotonic_ns())

    def add(self, step: str, begun: int, ended: int) -> None:
        """A visit that is over."""
        found = self._over.get(step)
        if found is None:
            self._over[step] = [1, begun, ended, ended - begun]
            return
        found[0] += 1
        found[2] = ended
        found[3] += ended - begun

    def all(self) -> list[Visit]:
        """Every step's, those that are open ended now."""
        for step in list(self._open):
            self.leave(step)
        return [
            (step, count, first, last, total)
            for step, (count, first, last, total) in self._over.items()
        ]

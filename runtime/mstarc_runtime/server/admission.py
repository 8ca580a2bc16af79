"""How many requests of a client are taken, and when one that is late ends.

The conductor counts exactly what waits; here more is not even handed over than can run and wait.
"""

import asyncio
import time
from collections.abc import Callable

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.limits import Limits
from mstarc_runtime.server.live import Live
from mstarc_runtime.server.turns import USUAL, current_standing
from mstarc_schedule.fairness import Turn


class Admission:
    """Of one server. Everything is called in asyncio's thread."""

    def __init__(self, limits: Limits, slots: int) -> None:
        self._limits = limits
        self._slots = slots
        self._usual = USUAL.turn(limits.queue)
        self._taken: dict[str, int] = {}
        self._kept: dict[Live, tuple[str, asyncio.TimerHandle | None]] = {}

    def check(self, count: int, retry_after_s: Callable[[], int]) -> tuple[Turn, float | None]:
        """How so many requests of the client that asks now wait, and when they must be answered.

        Fails with MS9222 when that time has passed, or with MS9310.
        """
        standing = current_standing()
        turn = self._usual if standing is USUAL else standing.turn(self._limits.queue)
        due_s = standing.due_s(self._limits.deadline_s)
        if due_s is not None and due_s <= time.monotonic():
            raise _late("it was not taken")
        taken = self._taken.get(turn.key, 0)
        if taken + count > self._slots + (turn.most_waiting or 0):
            raise RuntimeFailure(
                "MS9310",
                f"{taken} requests run or wait already",
                helps=[f"try again in {retry_after_s()} s"],
            )
        return turn, due_s

    def took(self, live: Live, turn: Turn, due_s: float | None) -> None:
        """A request is taken: it ends when it is late."""
        timer = None
        if due_s is not None:
            loop = asyncio.get_running_loop()
            left_s = max(0.0, due_s - time.monotonic())
            timer = loop.call_later(left_s, lambda: live.end(_late("it was ended")))
        self._taken[turn.key] = self._taken.get(turn.key, 0) + 1
        self._kept[live] = (turn.key, timer)

    def over(self, live: Live) -> None:
        """The ranks are through with a request."""
        key, timer = self._kept.pop(live)
        if timer is not None:
            timer.cancel()
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]


def _late(what: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9222",
        "the request was not answered in its time",
        notes=[f"{what}, and holds nothing any more"],
        helps=["ask for less, or give it longer"],
    )

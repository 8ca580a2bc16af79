"""Requests whose host jobs were dispatched together, and go on to the device together.

A prompt's step costs about as much for one request as for several, so one that is done with its
host step waits for its neighbours: as long as all of their jobs would take one after another, were
each as long as the first one to end, and 20 ms at most. A picture to decode holds no text up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

MOST_WAIT_NS = 20_000_000


@dataclass(slots=True, kw_only=True, eq=False)
class Cohort:
    """`size` jobs, of which `left` have not ended. `due_ns`: from when on whoever has ended goes on
    at once; 0 before the first has."""

    size: int
    left: int
    due_ns: int = 0
    going: list[Callable[[], None]] = field(default_factory=list)


class Cohorts:
    """Those in which somebody waits. `now_ns` is the clock of the pool that runs the jobs."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._waiting: list[Cohort] = []

    def ended(self, cohort: Cohort, go: Callable[[], None] | None, spent_ns: int) -> None:
        """A job has ended that took so long; its request goes on by `go`, None if it is over."""
        cohort.left -= 1
        if go is not None:
            cohort.going.append(go)
        if not cohort.left or 0 < cohort.due_ns <= self._now_ns():
            self._let_go(cohort)
        elif not cohort.due_ns:
            cohort.due_ns = self._now_ns() + min(cohort.size * spent_ns, MOST_WAIT_NS)
            self._waiting.append(cohort)

    def let_go(self) -> bool:
        """Lets those go on whose time has come; whether there were any."""
        if not self._waiting:
            return False
        now_ns = self._now_ns()
        due = [cohort for cohort in self._waiting if cohort.due_ns <= now_ns]
        for cohort in due:
            self._let_go(cohort)
        return bool(due)

    def most_wait_s(self, timeout_s: float) -> float:
        """How long may be waited for other things."""
        if not self._waiting:
            return timeout_s
        first_ns = min(cohort.due_ns for cohort in self._waiting) - self._now_ns()
        return min(timeout_s, max(0, first_ns) / 1e9)

    def _let_go(self, cohort: Cohort) -> None:
        if cohort in self._waiting:
            self._waiting.remove(cohort)
        going, cohort.going = cohort.going, []
        for go in going:
            go()

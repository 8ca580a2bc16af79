"""In which order requests that wait are let in: fair between keys, by priority among a key's own.

Keys with requests that wait take turns, one of weight 3 three times as often as one of weight 1.
Whoever had nothing waiting begins where the others are: nobody saves turns up. Among the requests
of one key those of higher priority go first, of equals the one that came first. With one key and
one priority this is a queue.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# What a turn costs a key of weight 1; divisible by the weights that people give.
_COST: Final = 720_720


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Who a request is from, and how it stands among that key's others. `most_waiting`: of the
    key's requests; None has no bound of its own."""

    key: str = ""
    weight: int = 1
    priority: int = 0
    most_waiting: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Line(Generic[T]):
    """What waits of one key: (-priority, number, item). `cost` is what its turns have cost, `last`
    the number of the last one."""

    cost: int
    last: int = -1
    heap: list[tuple[int, int, T]] = field(default_factory=list)


class FairQueue(Generic[T]):
    """Items that wait.

    >>> queue = FairQueue()
    >>> for item in ("a1", "a2", "a3", "b1"):
    ...     queue.push(item, Turn(key=item[0]))
    >>> [queue.pop() for _ in range(4)]
    ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line[T]] = {}
        self._weights: dict[str, int] = {}
        self._now = 0
        self._number = 0
        self._turns = 0

    def __len__(self) -> int:
        return sum(len(line.heap) for line in self._lines.values())

    def __iter__(self) -> Iterator[T]:
        """In the order of their coming."""
        entries = [entry for line in self._lines.values() for entry in line.heap]
        return iter([item for _, _, item in sorted(entries, key=lambda entry: entry[1])])

    def waiting_of(self, key: str) -> int:
        """How many items of a key wait."""
        line = self._lines.get(key)
        return 0 if line is None else len(line.heap)

    def push(self, item: T, turn: Turn) -> None:
        line = self._lines.setdefault(turn.key, _Line(cost=self._now))
        if not line.heap:
            line.cost = max(line.cost, self._now)
        self._weights[turn.key] = turn.weight
        heapq.heappush(line.heap, (-turn.priority, self._number, item))
        self._number += 1

    def pop(self) -> T:
        """The next one. There must be one."""
        waiting = [(line.cost, line.last, key) for key, line in self._lines.items() if line.heap]
        self._now, _, key = min(waiting)
        line = self._lines[key]
        line.last = self._turns
        self._turns += 1
        line.cost += _COST // self._weights[key]
        _, _, item = heapq.heappop(line.heap)
        self._forget_idle()
        return item

    def remove(self, item: T) -> None:
        """Takes one out that waits; its key has had no turn."""
        for line in self._lines.values():
            left = [entry for entry in line.heap if entry[2] is not item]
            if len(left) < len(line.heap):
                heapq.heapify(left)
                line.heap = left
                return
        raise ValueError("it does not wait")

    def clear(self) -> None:
        self._lines.clear()

    def _forget_idle(self) -> None:
        """What a key's last turns have cost is kept as long as it matters."""
        for key in [key for key, line in self._lines.items() if not line.heap]:
            if self._lines[key].cost <= self._now:
                del self._lines[key], self._weights[key]

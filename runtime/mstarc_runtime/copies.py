"""Which process each rank of a request is.

A placement's table of processes → for each request one copy of every rank that exists several
times. The choice is `mstarc_schedule`'s: the copy with the fewest requests.
"""

from collections.abc import Collection, Mapping

from mstarc_runtime.loader import PlacementFacts
from mstarc_schedule.copies import choose_copy, replicated_sets


class Copies:
    """The processes of a placement, and how many requests each copy has."""

    def __init__(self, placement: PlacementFacts) -> None:
        self._processes: dict[int, list[int]] = {}
        for facts in sorted(placement.processes, key=lambda facts: (facts.rank, facts.copy)):
            self._processes.setdefault(facts.rank, []).append(facts.process)
        self._sets = replicated_sets(
            {rank: len(processes) for rank, processes in self._processes.items()},
            [group.ranks for group in placement.groups],
        )
        self._loads = {ranks: [0] * len(self._processes[ranks[0]]) for ranks in self._sets}

    @property
    def loads(self) -> list[list[int]]:
        """Requests of each copy of each set."""
        return [list(self._loads[ranks]) for ranks in self._sets]

    def can_take(self, away: Collection[int] = ()) -> bool:
        """Whether every rank has a copy none of whose processes is `away`."""
        return all(self._there(ranks, away) for ranks in self._sets)

    def take(self, away: Collection[int] = ()) -> Mapping[int, int]:
        """Counts one more request; the process of each rank for it, none of them `away`."""
        where: dict[int, int] = {}
        for ranks in self._sets:
            there = self._there(ranks, away)
            copy = there[choose_copy([self._loads[ranks][copy] for copy in there])]
            self._loads[ranks][copy] += 1
            where.update({rank: self._processes[rank][copy] for rank in ranks})
        return where

    def give_back(self, where: Mapping[int, int]) -> None:
        """A request that was counted is over."""
        for ranks in self._sets:
            copy = self._processes[ranks[0]].index(where[ranks[0]])
            self._loads[ranks][copy] -= 1

    def _there(self, ranks: tuple[int, ...], away: Collection[int]) -> list[int]:
        """The copies of a set all of whose processes are there."""
        return [
            copy
            for copy in range(len(self._processes[ranks[0]]))
            if not any(self._processes[rank][copy] in away for rank in ranks)
        ]

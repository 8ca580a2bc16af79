"""Choose a rank for each node: exactly, by branch and bound over all ways to group the nodes.

The best placement has the least of, in this order: the busiest rank's seconds a request, where
differences below `GRAIN` of the whole load are ties (the costs are estimates); the seconds lost
between ranks; the seconds of the busiest rank, of the second, and so on, as they are; then the
first grouping in node order. Ranks are alike, so groups are numbered in the order in which the
program names their first node.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from mstarc.records import dataclass

GRAIN = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`bytes_of` what each node takes, `capacity_bytes` what a rank has."""

    nodes: Sequence[str]
    ranks: int
    load_s: Mapping[str, float]
    edge_s: Mapping[tuple[str, str], float]
    bytes_of: Mapping[str, int]
    capacity_bytes: int


Key = tuple[int, float, list[float], tuple[int, ...]]


def search(problem: Problem) -> dict[str, int] | None:
    """The best rank for each node, or None where no grouping fits."""
    return _Search(problem).run()


class _Search:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # Heavy nodes first: bad choices show early.
        self.order = sorted(
            problem.nodes, key=lambda name: (-problem.load_s[name], problem.nodes.index(name))
        )
        self.grain = GRAIN * sum(problem.load_s[name] for name in problem.nodes)
        self.loads = [0.0] * problem.ranks
        self.used = [0] * problem.ranks
        self.rank_of: dict[str, int] = {}
        self.best: Key | None = None
        self.best_ranks: dict[str, int] | None = None

    def run(self) -> dict[str, int] | None:
        self.place(0, 0, 0.0)
        return self.best_ranks

    def steps(self, seconds: float) -> int:
        return ceil(round(seconds / self.grain, 9)) if self.grain else 0

    def place(self, index: int, groups: int, lost: float) -> None:
        # Both only grow: this bounds what follows.
        bound = (self.steps(max(self.loads)), lost)
        if self.best is not None and bound > self.best[:2]:
            return
        if index == len(self.order):
            canonical = self.canonical()
            loads = sorted(self.loads, reverse=True)
            key = (*bound, loads, tuple(canonical[name] for name in self.problem.nodes))
            if self.best is None or key < self.best:
                self.best, self.best_ranks = key, canonical
            return
        name = self.order[index]
        size, load = self.problem.bytes_of[name], self.problem.load_s[name]
        for rank in range(min(groups + 1, self.problem.ranks)):
            if self.used[rank] + size > self.problem.capacity_bytes:
                continue
            self.loads[rank] += load
            self.used[rank] += size
            self.rank_of[name] = rank
            apart = sum(
                seconds
                for (a, b), seconds in self.problem.edge_s.items()
                if name in (a, b) and self.rank_of.get(b if name == a else a, rank) != rank
            )
            self.place(index + 1, max(groups, rank + 1), lost + apart)
            del self.rank_of[name]
            self.loads[rank] -= load
            self.used[rank] -= size

    def canonical(self) -> dict[str, int]:
        numbers: dict[int, int] = {}
        return {
            name: numbers.setdefault(self.rank_of[name], len(numbers))
            for name in self.problem.nodes
        }

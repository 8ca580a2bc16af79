"""A layout of the first pieces, and what no way to place the others can do better than.

Every number here only grows when a piece is added, so the key of it is a lower bound:

- a rank's seconds and bytes, and what is lost between ranks, are those of the pieces there;
- a machine takes the seconds of its pieces that are there and the least ones of those to come;
- all devices together do the work that is there and the least work to come, each at its speed.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from mstarc.analysis.placement.copies import RankSet, copies_of, least_cost, period_of
from mstarc.analysis.placement.groups import Groups
from mstarc.analysis.placement.problem import Home, Objective, Option, Piece, Problem
from mstarc.analysis.placement.score import exact, key_of, longest_branch
from mstarc.records import dataclass

# Copies up to which the cost of each number of them is a bound.
MOST_STEPS = 16


@dataclass(frozen=True, slots=True)
class Undo:
    """What `take_back` restores."""

    piece: Piece
    load: list[float]
    alone: list[float]
    held: list[dict[str, int]]
    path: dict[str, float]
    work: float
    priced: float


class Partial:
    """`homes` are those of the pieces placed so far, by name."""

    def __init__(self, problem: Problem, objective: Objective, order: Sequence[Piece]) -> None:
        self.problem = problem
        self.objective: Objective = objective
        self.groups = Groups(problem)
        self.homes: dict[str, Home] = {}
        self.load: list[float] = []
        self.alone: list[float] = []
        self.held: list[dict[str, int]] = []
        self.speeds = _speeds(problem)
        pairs = zip(problem.supply, self.speeds, strict=True)
        self.power = sum(part.count * speed for part, speed in pairs)
        self.least_price = min(part.price for part in problem.supply)
        self.machine_of = {piece.name: piece.machine for piece in order}
        self.edges: dict[str, list[tuple[str, float, float]]] = {piece.name: [] for piece in order}
        for edge in problem.edges:
            self.edges[edge.a].append((edge.b, edge.lost_s, edge.busy_s))
            self.edges[edge.b].append((edge.a, edge.lost_s, edge.busy_s))
        self.branches: dict[str, list[Piece]] = {}
        for piece in order:
            if piece.branch is not None:
                self.branches.setdefault(piece.branch, []).append(piece)
        self.least_bytes: dict[str, int] = {}
        for piece in order:
            for thing in piece.holds:
                size = min(problem.bytes_of[thing, o] * o.ranks for o in piece.busy_s)
                self.least_bytes[thing] = min(size, self.least_bytes.get(thing, size))
        self.most_ranks = min(problem.most_ranks, sum(part.count for part in problem.supply))
        self.least_alone = {
            piece.name: (
                min(seconds * option.ranks for option, seconds in piece.alone_s.items()),
                min(piece.alone_s.values()),
            )
            for piece in order
        }
        self.least_busy = {piece.name: min(piece.busy_s.values()) for piece in order}
        # Of all pieces: the least, replaced by what is when a piece is placed.
        self.path: dict[str, float] = {}
        for piece in order:
            self.path[piece.machine] = self.path.get(piece.machine, 0.0) + _least_serial(piece)
        self.work = sum(self._least_work(piece) for piece in order)
        self.priced = sum(self._least_priced(piece) for piece in order)

    def place(self, piece: Piece, home: Home) -> Undo | None:
        """Adds a piece; none, and nothing is changed, where a rank has no memory for it."""
        option, ranks = home.option, home.ranks
        held = self._held_with(piece, option, ranks)
        if held is None:
            return None
        undo = Undo(piece, self.load, self.alone, self.held, self.path, self.work, self.priced)
        new = len(held) - len(self.load)
        self.load = [*self.load, *([0.0] * new)]
        self.alone = [*self.alone, *([0.0] * new)]
        self.held = held
        self.path = dict(self.path)
        self.groups.add(piece, option, ranks)
        busy, alone = piece.busy_s[option], piece.alone_s[option]
        price = self.problem.supply[option.kind].price
        speed = self.speeds[option.kind]
        self.work += busy * option.ranks * speed - self._least_work(piece)
        self.priced += busy * option.ranks * price - self._least_priced(piece)
        for rank in ranks:
            self.load[rank] += busy
            self.alone[rank] += alone
        self.path[piece.machine] += _serial(piece, option) - _least_serial(piece)
        self._pay_edges(piece, ranks[0])
        self.homes[piece.name] = home
        return undo

    def take_back(self, undo: Undo) -> None:
        """Removes the piece that was placed last."""
        home = self.homes.pop(undo.piece.name)
        self.groups.remove(undo.piece, home.ranks)
        self.load, self.alone, self.held = undo.load, undo.alone, undo.held
        self.path, self.work, self.priced = undo.path, undo.work, undo.priced

    def bound(self) -> tuple[float, ...] | None:
        """A key that no completion is less than; none where there is no completion."""
        kinds, supply = self.groups.kinds, self.problem.supply
        missing = self._missing_ranks()
        if len(kinds) + missing > sum(part.count for part in supply):
            return None
        if len(supply) == 1:
            supply = (replace(supply[0], count=supply[0].count - missing),)
        sets = [
            RankSet(kinds[ranks[0]], len(ranks), max(self.load[rank] for rank in ranks))
            for ranks in self.groups.tied()
        ]
        copies = copies_of(sets, supply, "throughput")
        assert copies is not None, "more ranks than devices"
        period = max(self.work / self.power, period_of(sets, copies), self._period_to_come())
        further = missing * self.least_price
        price = max(self.least_price, sum(supply[kind].price for kind in kinds) + further)
        latency = self._latency()
        if self.objective != "cost":
            return key_of(self.objective, period, latency, price)
        # A request costs at least the price of the work in it.
        stepwise = least_cost(sets, supply, further, MOST_STEPS)
        cost = max(self.priced, stepwise)
        return (exact(cost), *key_of("cost", 0.0, latency, price)[1:])

    def _period_to_come(self) -> float:
        """The heaviest of the pieces that are to come goes to some rank, with some copies."""
        left = [busy for name, busy in self.least_busy.items() if name not in self.homes]
        spare = sum(part.count for part in self.problem.supply) - len(self.load)
        beside = 0.0 if spare or not self.load else min(self.load)
        return (beside + max(left, default=0.0)) / (1 + spare) if left else 0.0

    def _missing_ranks(self) -> int:
        """Ranks that must be added for what has no memory yet."""
        there = set().union(*self.held) if self.held else set()
        needed = sum(size for thing, size in self.least_bytes.items() if thing not in there)
        largest = max(part.capacity_bytes for part in self.problem.supply)
        kinds = self.groups.kinds
        free = sum(self.problem.supply[kind].capacity_bytes for kind in kinds)
        free -= sum(sum(things.values()) for things in self.held)
        return max(0, ceil((needed - free) / largest)) if largest else 0

    def _latency(self) -> float:
        path = dict(self.path)
        for pieces in self.branches.values():
            placed = [piece for piece in pieces if piece.name in self.homes]
            missing = [min(p.aside_s.values()) for p in pieces if p.name not in self.homes]
            longest = longest_branch(placed, self.homes) if placed else 0.0
            path[pieces[0].machine] += max(longest, *missing, 0.0)
        # What is to come goes to some rank, beside what is there if no rank can be added.
        left = [self.least_alone[name] for name in self.least_alone if name not in self.homes]
        total = sum(self.alone) + sum(seconds for seconds, _ in left)
        full = len(self.load) == self.most_ranks
        beside = min(self.alone) if full else 0.0
        heaviest = max((seconds for _, seconds in left), default=0.0)
        return max(*self.alone, *path.values(), beside + heaviest, total / self.most_ranks, 0.0)

    def _held_with(
        self, piece: Piece, option: Option, ranks: tuple[int, ...]
    ) -> list[dict[str, int]] | None:
        capacity = self.problem.supply[option.kind].capacity_bytes
        held = list(self.held)
        for rank in sorted(ranks):
            if rank == len(held):
                held.append({})
            more = {thing: self.problem.bytes_of[thing, option] for thing in piece.holds}
            held[rank] = held[rank] | more
            if sum(held[rank].values()) > capacity:
                return None
        return held

    def _pay_edges(self, piece: Piece, leader: int) -> None:
        for other, lost, busy in self.edges[piece.name]:
            home = self.homes.get(other)
            if home is None or home.ranks[0] == leader:
                continue
            self.load[leader] += busy
            self.load[home.ranks[0]] += busy
            self.work += 2 * busy * min(self.speeds)
            self.priced += 2 * busy * self.least_price
            if self.machine_of[other] == piece.machine:
                self.path[piece.machine] += lost

    def _least_work(self, piece: Piece) -> float:
        """In seconds of a device of the first kind."""
        return min(s * o.ranks * self.speeds[o.kind] for o, s in piece.busy_s.items())

    def _least_priced(self, piece: Piece) -> float:
        supply = self.problem.supply
        return min(s * o.ranks * supply[o.kind].price for o, s in piece.busy_s.items())


def _speeds(problem: Problem) -> list[float]:
    """How fast each kind of device is, by what all pieces take on it: 1 is the first kind.

    Any numbers give a bound, these a close one: work that only a fast device does quickly does not
    count as if a slow one did it as quickly.
    """
    totals: list[float] = []
    for kind in range(len(problem.supply)):
        total = 0.0
        for piece in problem.pieces:
            total += min(
                (s * o.ranks for o, s in piece.busy_s.items() if o.kind == kind), default=0.0
            )
        totals.append(total)
    return [totals[0] / total if total and totals[0] else 1.0 for total in totals]


def _serial(piece: Piece, option: Option) -> float:
    """Seconds alone in which nothing of its machine runs beside the piece."""
    aside = piece.aside_s[option] if piece.branch is not None else 0.0
    return piece.alone_s[option] - aside


def _least_serial(piece: Piece) -> float:
    return min(_serial(piece, option) for option in piece.alone_s)

"""Which KV contexts go along where a machine changes ranks.

    prefill on rank 0 -> decode on rank 1: `main` goes along, once; it stays on rank 1 from then on

A context is on one rank at a time. A machine that leaves a rank takes those contexts along that are
next used on another rank; one that is next used where the machine comes from stays there. What is
next used does not depend on where a context is, and a hop moves only what its rank holds. So the
same hop, in a loop, moves a context in the first pass and nothing later.

What a sampler has drawn and seen of a request travels in the same way, as (node, `sampler:NAME`).

Branches of a spread run at once: a context goes with the branch that uses it, and no other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field

from mstarc.diagnostics import InternalError
from mstarc.ir.graph import Node, Op
from mstarc.records import dataclass

Held = tuple[str, str]
"""(node, context), or (node, `sampler:NAME`)."""


@dataclass(slots=True, kw_only=True)
class Stop:
    """A step of a machine: where it is, which contexts it needs there, and where it leads.

    A spread leads to its branches and meets them again at the stop `join`; `inside` are the
    branches that a stop is in, as (stop of the spread, number), outermost first.
    """

    rank: int
    uses: frozenset[Held] = frozenset()
    next: list[int] = field(default_factory=list)
    join: int | None = None
    inside: tuple[tuple[int, int], ...] = ()


def used_by(node: Node, op: Op, context: str | None) -> frozenset[Held]:
    """What a call of an op uses, on `context` where its node's first one is meant."""
    first = node.contexts[0].name if node.contexts else None
    names = {context or name if name == first else name for name in (*op.writes, *op.reads)}
    if op.mask is not None and not names and first is not None:
        names.add(context or first)
    held = {(node.name, name) for name in names}
    if op.sampler is not None:
        held.add((node.name, f"sampler:{op.sampler}"))
    return frozenset(held)


def journeys(stops: Sequence[Stop]) -> dict[tuple[int, int], tuple[Held, ...]]:
    """For each edge between ranks, by its two stops, the contexts that it takes along if there."""
    return _Travel(stops).run()


class _Travel:
    def __init__(self, stops: Sequence[Stop]) -> None:
        self.stops = stops
        self.held = sorted({held for stop in stops for held in stop.uses})
        # What each branch of a spread uses, by (spread, number).
        self.branches: dict[tuple[int, int], set[Held]] = {}
        for stop in stops:
            for branch in stop.inside:
                self.branches.setdefault(branch, set()).update(stop.uses)

    def run(self) -> dict[tuple[int, int], tuple[Held, ...]]:
        found: dict[tuple[int, int], list[Held]] = {}
        for held in self.held:
            if len({stop.rank for stop in self.stops if held in stop.uses}) < 2:
                continue
            after = self.next_ranks(held)
            for edge in self.moves(held, after):
                found.setdefault(edge, []).append(held)
        return {edge: tuple(held) for edge, held in found.items()}

    def edges(self, index: int, held: Held) -> Iterable[int]:
        """Where a context may be used next, or be taken along to: not by a branch without it."""
        stop = self.stops[index]
        if stop.join is None:
            return stop.next
        number = {after: place for place, after in enumerate(stop.next)}
        using = [
            after
            for after in stop.next
            if held in self.branches.get((index, number[after]), frozenset())
        ]
        return using or [stop.join]

    def next_ranks(self, held: Held) -> list[frozenset[int]]:
        """The ranks that may be the first to use a context, from each stop on."""
        found: list[frozenset[int]] = [frozenset() for _ in self.stops]
        changed = True
        while changed:
            changed = False
            for index in range(len(self.stops) - 1, -1, -1):
                stop = self.stops[index]
                ranks = frozenset({stop.rank})
                if held not in stop.uses:
                    ranks = frozenset().union(*(found[i] for i in self.edges(index, held)))
                if ranks != found[index]:
                    found[index] = ranks
                    changed = True
        return found

    def moves(self, held: Held, after: list[frozenset[int]]) -> list[tuple[int, int]]:
        """The edges that take a context along; it is where it is used when it is used."""
        places: list[set[int]] = [set() for _ in self.stops]
        edges: dict[tuple[int, int], None] = {}
        pending = list(range(len(self.stops)))
        while pending:
            index = pending.pop()
            stop = self.stops[index]
            here = {stop.rank} if held in stop.uses else places[index]
            for target in self.edges(index, held):
                arriving = set(here)
                rank = self.stops[target].rank
                if stop.rank in here and rank != stop.rank and after[target] - {stop.rank}:
                    edges[index, target] = None
                    arriving = (here - {stop.rank}) | {rank}
                if not arriving <= places[target]:
                    places[target] |= arriving
                    pending.append(target)
        for stop, found in zip(self.stops, places, strict=True):
            if held in stop.uses and found - {stop.rank}:
                raise InternalError(f"{held} may be on ranks {sorted(found)}", stage="travel")
        return sorted(edges)

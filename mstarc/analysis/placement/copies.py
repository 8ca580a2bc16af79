"""How many times each set of ranks exists: as many as the devices allow and the objective wants.

A request takes one copy of each set, so with c copies of a set that it keeps busy for l seconds
no more than c / l requests a second pass, and the least of these is the throughput. To raise it,
the set that has the least must get a copy: copies follow one by one, and nothing is left to search.
"""

from collections.abc import Sequence
from math import ceil

from mstarc.analysis.placement.problem import Objective, Supply
from mstarc.records import dataclass

# Floats that are equal but for rounding.
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class RankSet:
    """`ranks` devices of one kind that a request keeps busy for `load_s`, the busiest of them."""

    kind: int
    ranks: int
    load_s: float


def copies_of(
    sets: Sequence[RankSet], supply: Sequence[Supply], objective: Objective
) -> tuple[int, ...] | None:
    """The copies of each set; None where there are too few devices for one of each.

    `cost` takes those with the least price of a request, and of equals the fewest; the others those
    with the greatest throughput, and no copy that does not serve it.

    >>> two = [RankSet(0, 1, 3.0), RankSet(0, 1, 1.0)]
    >>> copies_of(two, [Supply(name="cpu", count=5, capacity_bytes=0)], "throughput")
    (3, 1)
    """
    left = [part.count for part in supply]
    for each in sets:
        left[each.kind] -= each.ranks
    if min(left, default=0) < 0:
        return None
    counts = [1] * len(sets)
    if objective == "cost":
        return _cheapest(sets, supply, counts, left)
    _skip_ahead(sets, supply, counts, left)
    while (index := _next(sets, counts, left)) is not None:
        counts[index] += 1
        left[sets[index].kind] -= sets[index].ranks
    period = period_of(sets, counts)
    return tuple(least_copies(each, period) for each in sets)


def period_of(sets: Sequence[RankSet], counts: Sequence[int]) -> float:
    """Seconds between two requests with so many copies of each set."""
    return max((s.load_s / count for s, count in zip(sets, counts, strict=True)), default=0.0)


def least_copies(each: RankSet, period_s: float) -> int:
    """The copies of a set that a request every `period_s` needs."""
    return max(1, ceil(each.load_s / period_s * (1 - SLACK))) if period_s else 1


def _next(sets: Sequence[RankSet], counts: Sequence[int], left: Sequence[int]) -> int | None:
    """The set that must get the next copy, if there are devices for it."""
    worst, index = 0.0, None
    for position, each in enumerate(sets):
        period = each.load_s / counts[position]
        if period > worst:
            worst, index = period, position
    if index is None or left[sets[index].kind] < sets[index].ranks:
        return None
    return index


def _skip_ahead(
    sets: Sequence[RankSet], supply: Sequence[Supply], counts: list[int], left: list[int]
) -> None:
    """Gives the copies that are certain: each set rounds up, so its devices but one are shared."""
    period = 0.0
    for kind, part in enumerate(supply):
        own = [each for each in sets if each.kind == kind]
        work = sum(each.load_s * each.ranks for each in own)
        spare = part.count - sum(each.ranks for each in own)
        if work and not spare:
            return
        period = max(period, work / spare if work else 0.0)
    for index, each in enumerate(sets):
        counts[index] = least_copies(each, period)
        left[each.kind] -= (counts[index] - 1) * each.ranks


def _cheapest(
    sets: Sequence[RankSet], supply: Sequence[Supply], counts: list[int], left: list[int]
) -> tuple[int, ...]:
    best, best_cost = tuple(counts), _cost(sets, supply, counts, 0.0)
    while (index := _next(sets, counts, left)) is not None:
        counts[index] += 1
        left[sets[index].kind] -= sets[index].ranks
        cost = _cost(sets, supply, counts, 0.0)
        if cost < best_cost * (1 - SLACK):
            best, best_cost = tuple(counts), cost
    return best


def least_cost(
    sets: Sequence[RankSet], supply: Sequence[Supply], further_price: float, most_steps: int
) -> float:
    """What a request costs at least if devices of `further_price` are used besides; else 0.

    It is 0 where more than `most_steps` copies would have to be looked at.
    """
    counts = [1] * len(sets)
    left = [part.count for part in supply]
    for each in sets:
        left[each.kind] -= each.ranks
    best = _cost(sets, supply, counts, further_price)
    while (index := _next(sets, counts, left)) is not None:
        if not most_steps:
            return 0.0
        most_steps -= 1
        counts[index] += 1
        left[sets[index].kind] -= sets[index].ranks
        best = min(best, _cost(sets, supply, counts, further_price))
    return best


def _cost(
    sets: Sequence[RankSet], supply: Sequence[Supply], counts: Sequence[int], further: float
) -> float:
    return (price_of(sets, supply, counts) + further) * period_of(sets, counts)


def price_of(sets: Sequence[RankSet], supply: Sequence[Supply], counts: Sequence[int]) -> float:
    """The price of all devices of all copies."""
    pairs = zip(sets, counts, strict=True)
    return sum(supply[s.kind].price * s.ranks * count for s, count in pairs)

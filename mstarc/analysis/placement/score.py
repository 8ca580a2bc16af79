"""What a layout is worth: seconds between requests, seconds of one, the price of the devices.

Requests share ranks, so the busiest rank of a set bounds what a copy of it serves. A request that
runs alone is through when its slowest machine is, and no rank can do its own work faster: machines
run side by side and wait for one another only through streams. Pieces of one branch group that are
on different ranks run side by side too.
"""

from collections.abc import Iterable, Mapping
from math import floor, inf, log, log10

from mstarc.analysis.placement.copies import RankSet, copies_of, period_of, price_of
from mstarc.analysis.placement.problem import Home, Layout, Objective, Piece, Problem

# What is to be least counts to all digits that are not rounding; what decides between equals, in
# steps of a tenth: an estimate can claim no more.
DIGITS, STEP = 9, 1.1


def score(problem: Problem, homes: Mapping[str, Home], objective: Objective) -> Layout | None:
    """A layout with its best copies; None where it needs more devices or memory than there are.

    Ranks are 0 .. n-1, each with at least one piece.
    """
    count = 1 + max(max(home.ranks) for home in homes.values())
    kinds = [0] * count
    for home in homes.values():
        for rank in home.ranks:
            kinds[rank] = home.option.kind
    used = bytes_used(problem, homes, count)
    if any(size > problem.supply[kinds[r]].capacity_bytes for r, size in enumerate(used)):
        return None
    load = loads(problem, homes, count)
    members = rank_sets(homes.values(), count)
    sets = [
        RankSet(kinds[ranks[0]], len(ranks), max(load[rank] for rank in ranks)) for ranks in members
    ]
    copies = copies_of(sets, problem.supply, objective)
    if copies is None:
        return None
    if problem.copies_alike:
        copies = (1,) * len(sets)
    period = period_of(sets, copies)
    latency = latency_of(problem, homes, count)
    price = price_of(sets, problem.supply, copies)
    return Layout(
        homes={name: homes[name] for name in sorted(homes)},
        sets=tuple(members),
        copies=copies,
        kinds=tuple(kinds),
        load_s=tuple(load),
        bytes_used=tuple(used),
        period_s=period,
        latency_s=latency,
        price=price,
        key=key_of(objective, period, latency, price),
    )


def key_of(objective: Objective, period: float, latency: float, price: float) -> tuple[float, ...]:
    """What is least in the best layout, most important first."""
    match objective:
        case "latency":
            first, *others = latency, period, price
        case "throughput":
            first, *others = period, latency, price
        case "cost":
            first, *others = period * price, price, latency
    return (exact(first), *(steps(value) for value in others))


def exact(value: float) -> float:
    """The value without the digits that the order of a sum can change."""
    return round(value, DIGITS - 1 - floor(log10(value))) if value > 0.0 else 0.0


def steps(value: float) -> float:
    """How many steps the value is above one."""
    return float(round(log(value, STEP))) if value > 0.0 else -inf


def bytes_used(problem: Problem, homes: Mapping[str, Home], count: int) -> list[int]:
    """Bytes of each rank: of what its pieces hold, each thing once."""
    return [sum(things.values()) for things in held_by(problem, homes, count)]


def held_by(problem: Problem, homes: Mapping[str, Home], count: int) -> list[dict[str, int]]:
    """What the pieces of each rank hold, with its bytes there."""
    held: list[dict[str, int]] = [{} for _ in range(count)]
    for piece in problem.pieces:
        home = homes[piece.name]
        for thing in piece.holds:
            for rank in home.ranks:
                held[rank][thing] = problem.bytes_of[thing, home.option]
    return held


def loads(problem: Problem, homes: Mapping[str, Home], count: int) -> list[float]:
    """Seconds that a request keeps each rank busy."""
    load = [0.0] * count
    for piece in problem.pieces:
        home = homes[piece.name]
        for rank in home.ranks:
            load[rank] += piece.busy_s[home.option]
    for edge in problem.edges:
        a, b = homes[edge.a].ranks[0], homes[edge.b].ranks[0]
        if a != b:
            load[a] += edge.busy_s
            load[b] += edge.busy_s
    return load


def latency_of(problem: Problem, homes: Mapping[str, Home], count: int) -> float:
    """Seconds of a request that runs alone."""
    on_rank = [0.0] * count
    path: dict[str, float] = {}
    branches: dict[str, list[Piece]] = {}
    machine_of = {piece.name: piece.machine for piece in problem.pieces}
    for piece in problem.pieces:
        home = homes[piece.name]
        seconds = piece.alone_s[home.option]
        for rank in home.ranks:
            on_rank[rank] += seconds
        if piece.branch is not None:
            branches.setdefault(piece.branch, []).append(piece)
            seconds -= piece.aside_s[home.option]
        path[piece.machine] = path.get(piece.machine, 0.0) + seconds
    for pieces in branches.values():
        machine = pieces[0].machine
        longest = longest_branch(pieces, homes)
        path[machine] = path.get(machine, 0.0) + longest
    for edge in problem.edges:
        if homes[edge.a].ranks[0] == homes[edge.b].ranks[0]:
            continue
        machine = machine_of[edge.a]
        if machine == machine_of[edge.b]:
            path[machine] = path.get(machine, 0.0) + edge.lost_s
    return max(*on_rank, *path.values(), 0.0)


def longest_branch(pieces: Iterable[Piece], homes: Mapping[str, Home]) -> float:
    """Seconds of pieces that run side by side: those of one rank one after the other."""
    on: dict[int, float] = {}
    for piece in pieces:
        home = homes[piece.name]
        for rank in home.ranks:
            on[rank] = on.get(rank, 0.0) + piece.aside_s[home.option]
    return max(on.values())


def rank_sets(homes: Iterable[Home], count: int) -> list[tuple[int, ...]]:
    """The ranks that groups tie together, in order."""
    root = list(range(count))

    def find(rank: int) -> int:
        while root[rank] != rank:
            rank = root[rank]
        return rank

    for home in homes:
        for rank in home.ranks[1:]:
            a, b = find(home.ranks[0]), find(rank)
            root[max(a, b)] = min(a, b)
    members: dict[int, list[int]] = {}
    for rank in range(count):
        members.setdefault(find(rank), []).append(rank)
    return [tuple(ranks) for ranks in members.values()]

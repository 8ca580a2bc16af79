"""The search finds what trying everything finds.

What is tried here is written without the search: every group of ranks for every piece, every number
of copies of every set of ranks, and what they cost, from the definitions in `problem` and `score`.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations, product
from random import Random

import pytest

from mstarc.analysis.placement.problem import (
    OBJECTIVES,
    Edge,
    Home,
    Objective,
    Option,
    Piece,
    Problem,
    Supply,
)
from mstarc.analysis.placement.score import key_of
from mstarc.analysis.placement.search import search

SEEDS = range(200)
Group = tuple[Option, tuple[int, ...]]


def random_problem(seed: int) -> Problem:
    """Up to five pieces of up to four nodes, on up to five devices of one kind or two."""
    chance = Random(seed)
    shape = chance.choice(["wide", "cut", "mixed"])
    count = {"wide": 5, "cut": 3, "mixed": 3}[shape]
    kinds = 2 if shape == "mixed" else 1
    sizes = [1, 2] if shape == "cut" else [1]
    nodes = [f"n{index}" for index in range(chance.randint(1, 4))]
    pieces: list[Piece] = []
    bytes_of: dict[tuple[str, Option], int] = {}
    for index in range(chance.randint(1, count)):
        node = chance.choice(nodes)
        options = [Option(kind, tp) for kind in range(kinds) for tp in sizes]
        busy, alone = chance.choice([0.0, 0.1, chance.random()]), chance.random()
        side = chance.random()
        name = f"p{index}"
        pieces.append(
            Piece(
                name=name,
                node=node,
                machine=f"m{chance.randint(0, 1)}",
                busy_s={o: busy / o.tp**0.8 * (1 + o.kind) for o in options},
                alone_s={o: alone / o.tp**0.5 * (1 + o.kind) for o in options},
                aside_s={o: side * alone / o.tp**0.5 * (1 + o.kind) for o in options},
                branch="both" if chance.random() < 0.4 else None,
                holds=(node, name),
            )
        )
        for option in options:
            bytes_of[name, option] = chance.randint(0, 4) // option.tp
            for each in nodes:
                bytes_of.setdefault((each, option), chance.randint(0, 8) // option.tp)
    machine = {piece.name: piece.machine for piece in pieces}
    pieces = [replace(piece, machine="m0") if piece.branch else piece for piece in pieces]
    edges = [
        Edge(a=a, b=b, lost_s=chance.random() / 10, busy_s=chance.random() / 20)
        for a, b in combinations(machine, 2)
        if chance.random() < 0.5
    ]
    supply = [
        Supply(
            name=f"kind{kind}",
            count=chance.randint(1, 4 if kinds == 1 else 2),
            capacity_bytes=chance.randint(6, 24),
            price=chance.choice([1.0, 0.5]),
        )
        for kind in range(kinds)
    ]
    return Problem(
        pieces=tuple(pieces),
        edges=tuple(edges),
        bytes_of=bytes_of,
        supply=tuple(supply),
        together=(("p0", "p1"),) if len(pieces) > 2 and chance.random() < 0.2 else (),
    )


def best_keys(problem: Problem) -> dict[Objective, tuple[float, ...]]:
    """By objective the least key of all layouts that fit, each with its best copies."""
    devices = [kind for kind, part in enumerate(problem.supply) for _ in range(part.count)]
    choices = [list(groups(piece, devices)) for piece in problem.pieces]
    # Devices of a kind are alike: it is enough to try the first of them for the first piece.
    choices[0] = [
        (option, ranks)
        for option, ranks in choices[0]
        if ranks == tuple(r for r, k in enumerate(devices) if k == option.kind)[: option.ranks]
    ]
    best: dict[Objective, tuple[float, ...]] = {}
    for chosen in product(*choices):
        if is_allowed(problem, chosen) and fits(problem, chosen, devices):
            for objective in OBJECTIVES:
                found = key(problem, chosen, devices, objective)
                best[objective] = min(found, best.get(objective, found))
    return best


def groups(piece: Piece, devices: list[int]) -> Iterator[Group]:
    for option in piece.busy_s:
        own = [rank for rank, kind in enumerate(devices) if kind == option.kind]
        for ranks in permutations(own, option.tp):
            if ranks[1:] == tuple(sorted(ranks[1:])):
                yield option, ranks


def is_allowed(problem: Problem, chosen: tuple[Group, ...]) -> bool:
    pairs = list(zip(problem.pieces, chosen, strict=True))
    at = {piece.name: group for piece, group in pairs}
    if any(at[a] != at[b] for a, b in problem.together):
        return False
    for (piece, (_, a)), (other, (_, b)) in combinations(pairs, 2):
        small, large = sorted((set(a), set(b)), key=len)
        if not small & large:
            continue
        if piece.node == other.node and a != b:
            return False
        leader_of_large = a[0] if len(a) >= len(b) else b[0]
        leader_of_small = b[0] if len(a) >= len(b) else a[0]
        if not small <= large:
            return False
        is_inside = leader_of_large in small and min(len(a), len(b)) > 1
        if is_inside and leader_of_small != leader_of_large:
            return False
    return True


def fits(problem: Problem, chosen: tuple[Group, ...], devices: list[int]) -> bool:
    held: list[dict[str, int]] = [{} for _ in devices]
    for piece, (option, ranks) in zip(problem.pieces, chosen, strict=True):
        for rank in ranks:
            held[rank] |= {thing: problem.bytes_of[thing, option] for thing in piece.holds}
    return all(
        sum(things.values()) <= problem.supply[kind].capacity_bytes
        for things, kind in zip(held, devices, strict=True)
    )


def key(
    problem: Problem, chosen: tuple[Group, ...], devices: list[int], objective: Objective
) -> tuple[float, ...]:
    at = {piece.name: ranks for piece, (_, ranks) in zip(problem.pieces, chosen, strict=True)}
    busy, alone = [0.0] * len(devices), [0.0] * len(devices)
    paths: dict[str, float] = {}
    beside: dict[int, float] = {}
    for piece, (option, ranks) in zip(problem.pieces, chosen, strict=True):
        aside = piece.aside_s[option] if piece.branch else 0.0
        paths[piece.machine] = paths.get(piece.machine, 0.0) + piece.alone_s[option] - aside
        for rank in ranks:
            busy[rank] += piece.busy_s[option]
            alone[rank] += piece.alone_s[option]
            beside[rank] = beside.get(rank, 0.0) + aside
    if any(piece.branch for piece in problem.pieces):
        paths["m0"] += max(beside.values())
    machine = {piece.name: piece.machine for piece in problem.pieces}
    for edge in problem.edges:
        a, b = at[edge.a][0], at[edge.b][0]
        if a != b:
            busy[a] += edge.busy_s
            busy[b] += edge.busy_s
            if machine[edge.a] == machine[edge.b]:
                paths[machine[edge.a]] += edge.lost_s
    used = sorted({rank for ranks in at.values() for rank in ranks})
    ties = [{rank} for rank in used]
    for ranks in at.values():
        tied = [each for each in ties if each & set(ranks)]
        ties = [each for each in ties if not each & set(ranks)] + [set().union(*tied)]
    best: tuple[tuple[float, float], float, float] | None = None
    prices = [problem.supply[kind].price for kind in devices]
    for copies in product(range(1, max(p.count for p in problem.supply) + 1), repeat=len(ties)):
        taken = [0] * len(problem.supply)
        for tie, count in zip(ties, copies, strict=True):
            for rank in tie:
                taken[devices[rank]] += count
        if any(n > part.count for n, part in zip(taken, problem.supply, strict=True)):
            continue
        pairs = list(zip(ties, copies, strict=True))
        period = max(max(busy[rank] for rank in tie) / count for tie, count in pairs)
        price = sum(prices[rank] * count for tie, count in pairs for rank in tie)
        first = period * price if objective == "cost" else period
        rank_of = (round(first, 9), price)
        if best is None or rank_of < best[0]:
            best = rank_of, period, price
    assert best is not None
    return key_of(objective, best[1], max(*alone, *paths.values()), best[2])


@pytest.mark.parametrize("seed", SEEDS)
def test_search_equals_trying_all(seed: int) -> None:
    problem = random_problem(seed)
    tried = best_keys(problem)
    for objective in OBJECTIVES:
        found = search(problem, objective)
        assert bool(found) == (objective in tried)
        if found:
            assert found[0].key == pytest.approx(tried[objective]), objective


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(0, 200, 5))
def test_order_and_names_of_declarations_change_nothing(seed: int, objective: Objective) -> None:
    problem = random_problem(seed)
    found = search(problem, objective)
    renamed = search(shuffled(problem, seed), objective)
    assert [layout.key for layout in found] == [layout.key for layout in renamed]
    for layout, other in zip(found, renamed, strict=True):
        assert layout.homes == {name: other.homes[new_name(name)] for name in sorted(layout.homes)}


def shuffled(problem: Problem, seed: int) -> Problem:
    """The same with everything declared in another order, and every piece and node renamed."""
    chance = Random(seed)
    pieces = [
        replace(
            piece,
            name=new_name(piece.name),
            node=new_name(piece.node),
            holds=tuple(new_name(thing) for thing in reversed(piece.holds)),
            busy_s=dict(reversed(piece.busy_s.items())),
        )
        for piece in problem.pieces
    ]
    edges = [replace(edge, a=new_name(edge.b), b=new_name(edge.a)) for edge in problem.edges]
    chance.shuffle(pieces)
    chance.shuffle(edges)
    return replace(
        problem,
        pieces=tuple(pieces),
        edges=tuple(edges),
        together=tuple(tuple(map(new_name, tied)) for tied in problem.together),
        bytes_of={(new_name(thing), o): size for (thing, o), size in problem.bytes_of.items()},
    )


def new_name(name: str) -> str:
    """Another name, in another place of the alphabet."""
    return f"{9 - int(name[1:])}{name[0]}"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_runners_up_are_the_next_best(objective: Objective) -> None:
    problem = random_problem(7)
    found = search(problem, objective, keep=5)
    keys = [layout.key for layout in found]
    assert keys == sorted(keys)
    assert search(problem, objective)[0] == found[0]
    assert len({tuple(layout.homes.items()) for layout in found}) == len(found)


def test_a_thousand_devices_take_copies_of_what_limits() -> None:
    """A slow node gets the devices that a fast one leaves, where they can't share a device."""
    one = Option(0, 1)
    pieces = tuple(
        Piece(
            name=name,
            node=name,
            machine="m",
            busy_s={one: seconds},
            alone_s={one: seconds},
            holds=(name,),
        )
        for name, seconds in (("slow", 3.0), ("fast", 1.0))
    )
    problem = Problem(
        pieces=pieces,
        edges=(),
        bytes_of={("slow", one): 6, ("fast", one): 6},
        supply=(Supply(name="x", count=1024, capacity_bytes=10),),
    )
    (best,) = search(problem, "throughput")
    assert best.homes == {
        "fast": Home(option=one, ranks=(1,)),
        "slow": Home(option=one, ranks=(0,)),
    }
    assert best.copies == (768, 256)
    assert best.period_s == 3.0 / 768

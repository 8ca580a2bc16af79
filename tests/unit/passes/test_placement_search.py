"""The search finds what trying everything finds."""

from itertools import product
from math import ceil
from random import Random

import pytest

from mstarc.analysis.placement_search import GRAIN, Problem, search


def random_problem(seed: int) -> Problem:
    chance = Random(seed)
    nodes = [f"n{index}" for index in range(chance.randint(1, 6))]
    edges = {
        (a, b): chance.random() / 10
        for i, a in enumerate(nodes)
        for b in nodes[i + 1 :]
        if chance.random() < 0.5
    }
    return Problem(
        nodes=nodes,
        ranks=chance.randint(1, 3),
        load_s={name: chance.choice([0.0, 0.01, chance.random()]) for name in nodes},
        edge_s=edges,
        bytes_of={name: chance.randint(0, 10) for name in nodes},
        capacity_bytes=chance.randint(5, 30),
    )


def objective(problem: Problem, ranks: tuple[int, ...]) -> tuple[int, float, list[float]] | None:
    """What the search makes least, or None for what does not fit."""
    of = dict(zip(problem.nodes, ranks, strict=True))
    loads = [0.0] * problem.ranks
    used = [0] * problem.ranks
    for name in problem.nodes:
        loads[of[name]] += problem.load_s[name]
        used[of[name]] += problem.bytes_of[name]
    if max(used) > problem.capacity_bytes:
        return None
    lost = sum(seconds for (a, b), seconds in problem.edge_s.items() if of[a] != of[b])
    grain = GRAIN * sum(problem.load_s.values())
    steps = ceil(round(max(loads) / grain, 9)) if grain else 0
    return steps, round(lost, 9), [round(load, 9) for load in sorted(loads, reverse=True)]


@pytest.mark.parametrize("seed", range(60))
def test_search_equals_trying_all(seed: int) -> None:
    problem = random_problem(seed)
    found = search(problem)
    tried = [
        value
        for ranks in product(range(problem.ranks), repeat=len(problem.nodes))
        if (value := objective(problem, ranks)) is not None
    ]
    if found is None:
        assert not tried
        return
    assert objective(problem, tuple(found[name] for name in problem.nodes)) == min(tried)


@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_numbered_in_the_order_of_nodes(seed: int) -> None:
    problem = random_problem(seed)
    found = search(problem)
    if found is not None:
        firsts = list(dict.fromkeys(found[name] for name in problem.nodes))
        assert firsts == sorted(firsts)

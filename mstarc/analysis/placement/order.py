"""The order in which pieces are placed, and the numbers that ranks get: from numbers, not names."""

from collections.abc import Mapping, Sequence

from mstarc.analysis.placement.problem import Home, Objective, Piece, Problem


def ordered(problem: Problem, objective: Objective) -> tuple[Piece, ...]:
    """The heaviest first; of alike pieces, the one whose neighbours are heavier; then by name."""
    own = {piece.name: _numbers(problem, piece, objective) for piece in problem.pieces}
    near: dict[str, list[tuple[float, float, tuple[float, ...]]]] = {name: [] for name in own}
    for edge in problem.edges:
        near[edge.a].append((-edge.lost_s, -edge.busy_s, own[edge.b]))
        near[edge.b].append((-edge.lost_s, -edge.busy_s, own[edge.a]))
    return tuple(sorted(problem.pieces, key=lambda p: (own[p.name], sorted(near[p.name]), p.name)))


def _numbers(problem: Problem, piece: Piece, objective: Objective) -> tuple[float, ...]:
    options = sorted(piece.busy_s, key=lambda option: option.order)
    numbers: list[float] = []
    for option in options:
        size = sum(problem.bytes_of[thing, option] for thing in piece.holds)
        seconds = [-piece.busy_s[option], -piece.alone_s[option]]
        if objective == "latency":
            seconds.reverse()
        numbers += [*seconds, -float(size)]
    return tuple(numbers)


def canonical_homes(homes: Mapping[str, Home], order: Sequence[Piece]) -> dict[str, Home]:
    """The same layout with ranks numbered in the order in which the pieces name them.

    A leader has a lower number than its followers, also where a follower is named first.
    """
    before: dict[int, set[int]] = {}
    named: list[int] = []
    for piece in order:
        ranks = homes[piece.name].ranks
        for rank in ranks:
            before.setdefault(rank, set())
            if rank not in named:
                named.append(rank)
        for rank in ranks[1:]:
            before[rank].add(ranks[0])
    numbers: dict[int, int] = {}
    while len(numbers) < len(named):
        free = [r for r in named if r not in numbers and before[r] <= numbers.keys()]
        assert free, "leaders that are lower than one another"
        numbers[free[0]] = len(numbers)
    return {
        piece.name: Home(
            option=homes[piece.name].option,
            ranks=(
                numbers[homes[piece.name].ranks[0]],
                *sorted(numbers[rank] for rank in homes[piece.name].ranks[1:]),
            ),
        )
        for piece in order
    }

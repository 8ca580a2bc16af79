"""Which copy of a rank that exists several times takes a request.

Ranks that hold the shards of one node exist equally often, and a request takes all of them from one
copy: together they are a *replicated set*.
"""

from collections.abc import Iterable, Mapping, Sequence


def choose_copy(loads: Sequence[int]) -> int:
    """The copy with the fewest requests, and of equals the first.

    >>> choose_copy([3, 1, 1])
    1
    """
    return min(range(len(loads)), key=loads.__getitem__)


def replicated_sets(
    copies: Mapping[int, int], groups: Iterable[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """The sets of ranks that are chosen together: `copies` counts each rank's, `groups` are the
    ranks that hold the shards of a node. Every rank is in one set; sets are in order.

    >>> replicated_sets({0: 2, 1: 2, 4: 3, 5: 1}, [(0, 1)])
    ((0, 1), (4,), (5,))
    """
    together = {rank: {rank} for rank in copies}
    for group in groups:
        joined = set().union(*(together[rank] for rank in group))
        for rank in joined:
            together[rank] = joined
    made = {tuple(sorted(ranks)) for ranks in together.values()}
    for ranks in made:
        assert len({copies[rank] for rank in ranks}) == 1, f"ranks {ranks} exist unequally often"
    return tuple(sorted(made))

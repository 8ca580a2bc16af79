"""Which groups of ranks a piece may go to, each kind of group once.

Ranks that hold the same pieces in the same part are alike, so of them only how many are taken
counts. Groups nest or are apart, and a group inside another that holds its leader has that leader:
so do links and switches. A rank holds a node in one group only.
"""

from collections.abc import Iterator, Mapping, Sequence

from mstarc.analysis.placement.problem import Home, Option, Piece, Problem, Supply

# The pieces on a rank, and whether it leads their groups.
Holding = tuple[tuple[str, bool], ...]


class Groups:
    """The ranks so far: what each is and holds, and the groups of more than one."""

    def __init__(self, problem: Problem) -> None:
        self.most_ranks = problem.most_ranks
        self.node_of = {piece.name: piece.node for piece in problem.pieces}
        self.beside = {
            name: {other for group in problem.together if name in group for other in group}
            for name in self.node_of
        }
        self.kinds: list[int] = []
        self.holding: list[Holding] = []
        self.group_of: list[dict[str, tuple[int, ...]]] = []
        self.groups: list[tuple[int, ...]] = []

    def can_add(self, kind: int, ranks: int, supply: Sequence[Supply]) -> bool:
        """Whether there are devices for so many further ranks."""
        taken = sum(1 for own in self.kinds if own == kind)
        return len(self.kinds) + ranks <= self.most_ranks and taken + ranks <= supply[kind].count

    def choices(
        self, piece: Piece, homes: Mapping[str, Home], supply: Sequence[Supply]
    ) -> list[tuple[Option, tuple[int, ...]]]:
        """Options and groups for a piece. Ranks past the last are new ones."""
        tied = [home for name, home in homes.items() if name in self.beside[piece.name]]
        if tied:
            return self._beside(piece, tied)
        own = sorted({groups[piece.node] for groups in self.group_of if piece.node in groups})
        found: list[tuple[Option, tuple[int, ...]]] = []
        for option in sorted(piece.busy_s, key=lambda option: option.order):
            # Where the node is already, in whole groups of it, or where it is not yet.
            found += [
                (option, group)
                for group in own
                if len(group) == option.ranks and self.kinds[group[0]] == option.kind
            ]
            found += [
                (option, group)
                for group in self._new_groups(piece.node, option, supply)
                if len(group) == 1 or all(nests(group, other) for other in self.groups)
            ]
        return found

    def _beside(self, piece: Piece, tied: list[Home]) -> list[tuple[Option, tuple[int, ...]]]:
        """The group of the pieces that this one must be with, if it may be there."""
        home = tied[0]
        groups = [self.group_of[rank].get(piece.node) for rank in home.ranks]
        fits = all(group in (None, home.ranks) for group in groups)
        same = all(other == home for other in tied)
        return [(home.option, home.ranks)] if fits and same and home.option in piece.busy_s else []

    def _new_groups(
        self, node: str, option: Option, supply: Sequence[Supply]
    ) -> Iterator[tuple[int, ...]]:
        alike: dict[Holding, list[int]] = {}
        for rank, holding in enumerate(self.holding):
            if self.kinds[rank] == option.kind and node not in self.group_of[rank]:
                alike.setdefault(holding, []).append(rank)
        new = 0
        while new < option.ranks and self.can_add(option.kind, new + 1, supply):
            new += 1
        count = len(self.kinds)
        classes = [*alike.values(), list(range(count, count + new))]
        for index, members in enumerate(classes):
            if not members:
                continue
            rest = [*classes[:index], members[1:], *classes[index + 1 :]]
            for followers in _taken(rest, option.ranks - 1):
                yield (members[0], *sorted(followers))

    def add(self, piece: Piece, option: Option, ranks: tuple[int, ...]) -> None:
        """The piece is on these ranks. Undone by `remove`, last in first out."""
        for rank in sorted(ranks):
            if rank == len(self.kinds):
                self.kinds.append(option.kind)
                self.holding.append(())
                self.group_of.append({})
            self.holding[rank] = (*self.holding[rank], (piece.name, rank == ranks[0]))
            self.group_of[rank].setdefault(piece.node, ranks)
        if len(ranks) > 1:
            self.groups.append(ranks)

    def remove(self, piece: Piece, ranks: tuple[int, ...]) -> None:
        """Takes the piece away that was added last."""
        if len(ranks) > 1:
            self.groups.pop()
        for rank in sorted(ranks, reverse=True):
            self.holding[rank] = self.holding[rank][:-1]
            if not self.holding[rank]:
                self.kinds.pop()
                self.holding.pop()
                self.group_of.pop()
            elif not self._is_on(piece.node, rank):
                del self.group_of[rank][piece.node]

    def tied(self) -> list[tuple[int, ...]]:
        """The ranks that groups tie together, and the others, each alone."""
        # Groups nest, so the largest around a rank are the sets.
        largest: list[tuple[int, ...]] = []
        free = set(range(len(self.kinds)))
        for group in sorted(self.groups, key=len, reverse=True):
            if group[0] in free:
                largest.append(group)
                free.difference_update(group)
        return [*largest, *((rank,) for rank in sorted(free))]

    def _is_on(self, node: str, rank: int) -> bool:
        return any(self.node_of[name] == node for name, _ in self.holding[rank])


def nests(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two groups may be together: apart, or one inside the other under its leader.

    >>> nests((0, 1), (0, 1, 2, 3)), nests((2, 3), (0, 1, 2, 3)), nests((1, 2), (2, 3))
    (True, True, False)
    """
    small, large = sorted((a, b), key=len)
    shared = set(small) & set(large)
    if not shared:
        return True
    return len(shared) == len(small) and (large[0] not in shared or small[0] == large[0])


def _taken(classes: list[list[int]], number: int) -> Iterator[tuple[int, ...]]:
    """All ways to take `number` of the members, of each class the first ones."""
    if number == 0:
        yield ()
        return
    left = sum(len(members) for members in classes)
    if left < number:
        return
    first, rest = classes[0], classes[1:]
    # The other classes may be too small for what is not taken here.
    least = max(0, number - (left - len(first)))
    for taken in range(min(number, len(first)), least - 1, -1):
        for others in _taken(rest, number - taken):
            yield (*first[:taken], *others)

"""The best layouts of a problem: exactly, by branch and bound over all ways to place its pieces.

Pieces are placed one after the other, the heaviest first, each on every group of ranks that differs
from another group by more than a number: ranks that hold the same are alike. A partial layout is
given up when no completion of it can have a lesser key than the worst layout that is kept. Work,
loads, memory and ranks only grow, so what is there bounds what follows.

The order of pieces comes from their numbers, names only tell apart what has the same numbers. So
neither the order nor the names of declarations change the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from mstarc.analysis.placement.groups import Groups
from mstarc.analysis.placement.order import canonical_homes, ordered
from mstarc.analysis.placement.partial import Partial
from mstarc.analysis.placement.problem import Home, Layout, Objective, Option, Piece, Problem
from mstarc.analysis.placement.score import score

# Devices of a kind up to which latency is searched at once.
GROUP = 8


# Partial layouts that are looked at for runners-up: a second or two.
ENOUGH = 4000


def search(
    problem: Problem, objective: Objective, *, keep: int = 1, apart: float = 0.0
) -> tuple[Layout, ...]:
    """The best layout and those that follow it, `keep` at most; none where nothing fits.

    Each of them is worse than the one before by more than the part `apart`. The first is the best
    of all, the others are so where there is time to look at all that may be.

    For `latency` on many devices a group of them is searched, since a request alone uses no more,
    and what is found is copied to the others; the other objectives search all devices.
    """
    if objective != "latency" or all(part.count <= GROUP for part in problem.supply):
        return _found(problem, objective, keep, apart)
    supply = tuple(replace(part, count=min(part.count, GROUP)) for part in problem.supply)
    found = _found(replace(problem, supply=supply), objective, keep, apart)
    copied = [score(problem, layout.homes, objective) for layout in found]
    whole = [layout for layout in copied if layout is not None]
    return tuple(sorted(whole, key=lambda layout: layout.key))


def _found(problem: Problem, objective: Objective, keep: int, apart: float) -> tuple[Layout, ...]:
    best = _Search(problem, objective, 1).run()
    if keep == 1 or not best:
        return best
    others = _Search(problem, objective, keep, apart, enough=ENOUGH)
    others.offer(best[0].homes)
    return others.run()


class _Search:
    def __init__(
        self,
        problem: Problem,
        objective: Objective,
        keep: int,
        apart: float = 0.0,
        *,
        enough: int | None = None,
    ) -> None:
        self.problem = problem
        self.objective: Objective = objective
        self.keep = keep
        self.apart = 1.0 + apart
        self.left = enough
        self.order = ordered(problem, objective)
        self.found: list[tuple[tuple[float, ...], int, Layout]] = []
        self.seen: set[tuple[Home, ...]] = set()
        self.numbers = count()

    def run(self) -> tuple[Layout, ...]:
        for homes in self.guesses():
            if all(len({homes[name] for name in tied}) == 1 for tied in self.problem.together):
                self.offer(homes)
        partial = Partial(self.problem, self.objective, self.order)
        self.extend(partial, 0)
        return tuple(layout for _, _, layout in self.found)

    def extend(self, partial: Partial, index: int) -> None:
        """Places the pieces from `index` on in all ways that may be among the best."""
        if index == len(self.order):
            self.offer(partial.homes)
            return
        piece = self.order[index]
        ways: list[tuple[tuple[float, ...], int, Home]] = []
        for option, ranks in partial.groups.choices(piece, partial.homes, self.problem.supply):
            home = Home(option=option, ranks=ranks)
            undo = partial.place(piece, home)
            if undo is not None:
                bound = partial.bound()
                if self.left is not None:
                    self.left -= 1
                if bound is not None:
                    ways.append((bound, len(ways), home))
                partial.take_back(undo)
        # The most promising first, so that good layouts are found early and rule out others.
        for bound, _, home in sorted(ways, key=lambda way: way[:2]):
            if len(self.found) == self.keep and bound >= self.found[-1][0]:
                return
            if self.left is not None and self.left <= 0:
                return
            undo = partial.place(piece, home)
            assert undo is not None
            self.extend(partial, index + 1)
            partial.take_back(undo)

    def offer(self, homes: Mapping[str, Home]) -> None:
        """Keeps a whole layout if it is among the best so far."""
        canonical = canonical_homes(homes, self.order)
        identity = tuple(canonical[piece.name] for piece in self.order)
        if identity in self.seen:
            return
        layout = score(self.problem, canonical, self.objective)
        if layout is None:
            return
        self.seen.add(identity)
        self.found.append((layout.key, next(self.numbers), layout))
        self.found.sort(key=lambda entry: entry[:2])
        if self.apart > 1.0:
            self.found = self.without_alike()
        del self.found[self.keep :]

    def without_alike(self) -> list[tuple[tuple[float, ...], int, Layout]]:
        """What was found but for layouts that are hardly worse than one before them."""
        kept = self.found[:1]
        for entry in self.found[1:]:
            if entry[0][0] > kept[-1][0][0] * self.apart:
                kept.append(entry)
        return kept

    def guesses(self) -> Iterator[dict[str, Home]]:
        """Layouts that are good often enough to be tried first: they give up others early."""
        for option in _options(self.order):
            fitting = [option in piece.busy_s for piece in self.order]
            single = Option(option.kind)
            if not any(fitting) or not all(single in piece.busy_s for piece in self.order):
                continue
            groups = Groups(self.problem)
            if groups.can_add(option.kind, option.ranks, self.problem.supply):
                together = tuple(range(option.ranks))
                yield {
                    piece.name: Home(option=option, ranks=together)
                    if option in piece.busy_s
                    else Home(option=single, ranks=(0,))
                    for piece in self.order
                }
            nodes = list(dict.fromkeys(piece.node for piece in self.order))
            if groups.can_add(option.kind, len(nodes), self.problem.supply):
                yield {
                    piece.name: Home(option=single, ranks=(nodes.index(piece.node),))
                    for piece in self.order
                }


def _options(pieces: tuple[Piece, ...]) -> list[Option]:
    found = {option for piece in pieces for option in piece.busy_s}
    return sorted(found, key=lambda option: option.order)

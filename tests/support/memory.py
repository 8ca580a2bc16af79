"""Memory of processes over time, and whether it is flat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Slope:
    """A straight line's slope and its standard error, in the units of y over x.

    `count` blocks of points; `repeats` is the correlation of neighbours about the line, by which
    the error has been widened.
    """

    slope: float
    error: float
    count: int
    repeats: float = 0.0

    @property
    def verdict(self) -> Literal["flat", "grows", "shrinks", "too few points"]:
        """Flat: no slope can be told from noise, of at most twice the standard error."""
        if math.isinf(self.error):
            return "too few points"
        if abs(self.slope) <= 2 * self.error:
            return "flat"
        return "grows" if self.slope > 0 else "shrinks"


def slope_of(runs: Sequence[Points], *, block: float = 0.0) -> Slope:
    """The one slope that fits several runs of points, each with a level of its own.

    Points are first averaged over blocks that long, in the units of x: what a process holds now it
    mostly still holds a moment later. Neighbouring blocks that still are alike count for less.

    >>> line = slope_of([[(0, 1), (1, 3), (2, 5)], [(0, 9), (1, 11)]])
    >>> line.slope, line.error, line.count
    (2.0, 0.0, 5)
    """
    runs = [blocks_of(run, block) for run in runs]
    means = [(_mean([x for x, _ in run]), _mean([y for _, y in run])) for run in runs]
    square = cross = 0.0
    for run, (mean_x, mean_y) in zip(runs, means, strict=True):
        square += sum((x - mean_x) ** 2 for x, _ in run)
        cross += sum((x - mean_x) * (y - mean_y) for x, y in run)
    count = sum(len(run) for run in runs)
    free = count - len(runs) - 1
    if not square or free < 1:
        return Slope(slope=0.0, error=math.inf, count=count)
    slope = cross / square
    left = [
        [y - mean_y - slope * (x - mean_x) for x, y in run]
        for run, (mean_x, mean_y) in zip(runs, means, strict=True)
    ]
    total = sum(rest**2 for run in left for rest in run)
    near = sum(one * other for run in left for one, other in pairwise(run))
    repeats = min(0.9, max(0.0, near / total)) if total > 0 else 0.0
    widened = (1 + repeats) / (1 - repeats)
    error = math.sqrt(widened * total / free / square)
    return Slope(slope=slope, error=error, count=count, repeats=repeats)


def parts_of(run: Points, parts: int) -> list[float]:
    """By how much y went up in each of so many equal parts of x, by means of what is near its ends.

    >>> parts_of([(0, 0), (1, 4), (2, 6), (3, 7), (4, 7.5)], 2)
    [6.0, 1.5]
    """
    first, last = run[0][0], run[-1][0]
    edges = [first + (last - first) * part / parts for part in range(parts + 1)]
    reach = (last - first) / parts / 4
    levels = [_mean([y for x, y in run if abs(x - edge) <= max(reach, 1e-9)]) for edge in edges]
    return [after - before for before, after in pairwise(levels)]


def blocks_of(run: Points, length: float) -> Points:
    """The means of points that fall in the same block of x, of this length; 0: points as they are.

    >>> blocks_of([(0, 1), (1, 3), (2, 5), (3, 7)], 2)
    [(0.5, 2.0), (2.5, 6.0)]
    """
    if not length or not run:
        return run
    found: dict[int, list[tuple[float, float]]] = {}
    for x, y in run:
        found.setdefault(int((x - run[0][0]) // length), []).append((x, y))
    return [(_mean([x for x, _ in part]), _mean([y for _, y in part])) for part in found.values()]


def own_mb(process: int) -> float | None:
    """What a process has in memory of its own and of no file, in MB; None when it is gone.

    Pages of files don't count: whose they are depends on who else has opened the same library.
    """
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    kilobytes = [
        int(line.split()[1])
        for line in text.splitlines()
        if line.startswith(("Anonymous:", "Swap:"))
    ]
    return sum(kilobytes) / 1000 if kilobytes else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

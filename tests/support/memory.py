"""Memory of processes over time, and whether it is flat."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Slope:
    """A straight line's slope and its standard error, in the units of y over x; `count` points."""

    slope: float
    error: float
    count: int

    @property
    def is_flat(self) -> bool:
        """Whether no growth can be told from noise: at most twice the standard error."""
        return self.slope <= 2 * self.error


def slope_of(runs: Sequence[Sequence[tuple[float, float]]]) -> Slope:
    """The one slope that fits several runs of points, each with a level of its own.

    The standard error takes points as independent; of a process that keeps what it once had it is
    too small, so that growth is rather seen than missed.

    >>> slope_of([[(0, 1), (1, 3), (2, 5)], [(0, 9), (1, 11)]])
    Slope(slope=2.0, error=0.0, count=5)
    """
    square = cross = total = 0.0
    count = 0
    for run in runs:
        mean_x = sum(x for x, _ in run) / len(run)
        mean_y = sum(y for _, y in run) / len(run)
        count += len(run)
        square += sum((x - mean_x) ** 2 for x, _ in run)
        cross += sum((x - mean_x) * (y - mean_y) for x, y in run)
        total += sum((y - mean_y) ** 2 for _, y in run)
    if not square:
        return Slope(slope=0.0, error=math.inf, count=count)
    slope = cross / square
    free = count - len(runs) - 1
    left = max(0.0, total - slope * cross)
    return Slope(
        slope=slope, error=math.sqrt(left / free / square) if free > 0 else math.inf, count=count
    )


def resident_mb(process: int) -> float | None:
    """What a process has in memory of its own, in MB; None when it is gone."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    kilobytes = [
        int(line.split()[1])
        for line in text.splitlines()
        if line.startswith(("Private_Clean:", "Private_Dirty:"))
    ]
    return sum(kilobytes) / 1000 if kilobytes else None

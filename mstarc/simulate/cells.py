"""Alike parts of a cluster as one: a simulation of a thousand devices that costs one of few.

Where every set of ranks exists so many times that all the numbers have a common divisor, the
cluster is that many cells of the same ranks: requests are spread over copies evenly, so each cell
sees its part of them. Nothing goes from cell to cell but by chance of who is least loaded.
"""

from dataclasses import replace
from math import gcd

from mstarc.plan.plan import PlacedPlan

# Processes up to which a cluster is simulated as it is.
FEW = 16


def one_cell(placed: PlacedPlan) -> tuple[PlacedPlan, int]:
    """The plan with the copies of one cell, and how many cells there are."""
    placement = placed.placement
    counts = {rank.rank: 1 for rank in placed.ranks}
    for copy in placement.copies:
        counts[copy.rank] += 1
    cells = gcd(*counts.values())
    if sum(counts.values()) <= FEW or cells == 1:
        return placed, 1
    kept = tuple(c for c in placement.copies if c.copy < counts[c.rank] // cells)
    return replace(placed, placement=replace(placement, copies=kept)), cells

"""Requests cancelled at random points of real processes leave nothing, and nobody else notices."""

from pathlib import Path
from random import Random

from tests.support.cancel_points import DEPLOYMENT, ORPHEUS, PHASES, SLOTS, cancelling
from tests.support.serving import compiled

POINTS = 18
"""`benchmarks/cancel_points.py` does 200."""


def test_cancelling_at_random_points_leaves_nothing(tmp_path: Path) -> None:
    plan = compiled(tmp_path, *ORPHEUS, deployments={"two": DEPLOYMENT})
    with cancelling(plan, tmp_path) as world:
        for point in range(POINTS):
            world.cancel_at(PHASES[point % len(PHASES)], Random(point))
        world.cancel_in_a_row(SLOTS + 1)
        cancelled = [phase for phase, how in world.ended if how == "cancelled"]
        assert set(cancelled) >= set(PHASES) - {"last flush", "producer done"}
        assert sum(world.ended.values()) == POINTS

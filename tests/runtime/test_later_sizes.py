"""Sizes that are captured while nobody is served: until then batches are padded to larger ones."""

from pathlib import Path

import pytest

from mstarc_runtime.engine import later_sizes
from mstarc_runtime.engine.coverage import uncovered
from mstarc_runtime.plan_api import DeviceStep
from tests.runtime.plan_folder import write_plan
from tests.runtime.test_coverage import DECODE, MOST_REQUESTS, VOCODE, ranks_of, run


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan("orpheus", tmp_path_factory.mktemp("plan"))


@pytest.fixture
def slow_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph takes as if kernels had to be compiled."""
    monkeypatch.setattr(later_sizes, "QUICK_S", 0.0)


@pytest.mark.usefixtures("slow_kernels")
def test_a_rank_starts_with_the_smallest_and_the_largest_size_and_captures_others_when_idle(
    plan_folder: Path,
) -> None:
    ranks = ranks_of(plan_folder, buckets=())
    (worker,) = ranks.workers
    regions = [s for s in worker.plan.steps if isinstance(s, DeviceStep) and s.region is not None]
    assert {step.name for step in regions} == {DECODE, VOCODE}
    for step in regions:
        captured = {size for number, size in worker.coverage.captured if number == step.id}
        assert captured == {1, MOST_REQUESTS} <= set(worker.later.ready(step))
        assert not {2, 4, 8} & set(worker.later.ready(step))
    waiting = worker.later.count
    assert waiting == 2 * len((2, 4, 8))
    for left in reversed(range(waiting)):
        assert worker.turn()
        assert worker.later.count == left
    assert not worker.turn()
    assert uncovered(worker) == []
    assert all(worker.later.ready(step) == step.buckets for step in regions)
    assert worker.start_s["capture between"] > 0


@pytest.mark.usefixtures("slow_kernels")
def test_batches_of_a_size_that_waits_are_graphs_of_a_larger_one(plan_folder: Path) -> None:
    ranks = ranks_of(plan_folder, buckets=())
    tallies = run(ranks, plan_folder, 3)
    decodes = [tally for tally in tallies if tally.step == DECODE]
    assert all(not tally.reason for tally in decodes), "no batch ran call by call"
    assert {tally.bucket for tally in decodes} <= {1, MOST_REQUESTS}


def test_all_sizes_are_there_at_once_where_no_kernel_has_to_be_compiled(plan_folder: Path) -> None:
    (worker,) = ranks_of(plan_folder, buckets=()).workers
    assert worker.later.count == 0
    assert uncovered(worker) == []


def test_all_sizes_are_there_at_once_where_graphs_are_required(plan_folder: Path) -> None:
    ranks = ranks_of(plan_folder, buckets=(), require_graphs=True)
    assert ranks.workers[0].later.count == 0

"""Real models on many layouts, all ranks in one process: what is cancelled leaves nothing."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mstarc_runtime.launch import LocalRanks
from tests.runtime.rig import Collected
from tests.support.layout_runs import (
    MODELS,
    answers,
    answers_of_half,
    compile_layouts,
    in_process,
    random_layout,
    requests_of,
)

COUNT = 8
RANDOM = 6


def snapshot(ranks: LocalRanks) -> list[Any]:
    return [ranks.conductor.snapshot(), *(worker.snapshot() for worker in ranks.workers)]


@pytest.mark.parametrize("name", MODELS)
def test_any_layout_answers_alike_and_cancelled_requests_leave_nothing(
    name: str, tmp_path: Path
) -> None:
    # Parts of a group wait for one another: they are processes, or threads.
    layouts = {key: groups for key, groups in MODELS[name].layouts.items() if "tp2" not in key}
    layouts |= {f"random_{seed}": random_layout(name, seed) for seed in range(RANDOM)}
    plan = compile_layouts(name, tmp_path / "plan", layouts)
    expected = run(tmp_path, plan, name, "one", cancels=False)
    for layout in layouts:
        made = run(tmp_path, plan, name, layout, cancels=True)
        for one, other in zip(made, expected, strict=True):
            assert (one.values, one.texts) == (other.values, other.texts), layout


def run(folder: Path, plan: Any, name: str, layout: str, *, cancels: bool) -> list[Collected]:
    """What every other request makes; those between are cancelled at some time, or not."""
    requests = requests_of(name)[:COUNT]
    with in_process(plan, layout, folder) as ranks:
        before = snapshot(ranks)
        made = (
            answers_of_half(ranks, requests, Random(layout))
            if cancels
            else answers(ranks, requests)[::2]
        )
        for _ in range(20):
            ranks.turn()
        assert snapshot(ranks) == before, layout
    assert all(one.is_over and one.failure is None for one in made)
    return made

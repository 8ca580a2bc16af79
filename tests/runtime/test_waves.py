"""Requests that come together are read together: a wave of prompts is one step, not one each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.launch import LocalRanks, ask_ranks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import write_plan
from tests.runtime.rig import Collected, nowhere

REQUESTS = 4


class Quick(InlinePool):
    """Every job has ended when it is asked for: what a pool with threads to spare does."""

    def drain(self) -> bool:
        found = False
        while super().drain():
            found = True
        return found


def ranks_of(folder: Path, make_pool: Callable[[Any], InlinePool]) -> LocalRanks:
    plan = load_plan(folder)
    return LocalRanks(
        plan,
        load_placement(plan, "cpu"),
        settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1, deterministic=False),
        progress=PlainProgress(nowhere()),
        make_pool=make_pool,
    )


@pytest.mark.parametrize("make_pool", [Quick, InlinePool], ids=["at_once", "one_by_one"])
def test_prompts_of_a_wave_are_read_in_one_step(
    make_pool: Callable[[], InlinePool], tmp_path: Path
) -> None:
    folder = write_plan("orpheus", tmp_path)
    ranks = ranks_of(folder, lambda wake: make_pool())
    plan, listeners = load_plan(folder), []
    # The first finds out which values are read together.
    for wave in (1, REQUESTS):
        for number in range(wave):
            asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": 2})
            listeners.append(Collected())
            ranks.conductor.submit(prepare(plan, asked, seed=number), listeners[-1])
        run_until_done(ranks)
    assert all(listener.events[-1] == "finished" for listener in listeners)
    tallies = [tally for told, _ in ask_ranks(ranks) for tally in told.tallies]
    read = [(t.requests, t.runs) for t in tallies if t.step == "speak.begin.start"]
    assert sorted(read) == [(1, 1), (REQUESTS, 1)]

"""One answer, many layouts: every layout as processes gives what one rank gives."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from mstarc_runtime.launch import run_until_done
from mstarc_runtime.loader import LoadedPlan
from tests.runtime.rig import Collected
from tests.support.layout_runs import (
    MODELS,
    answers,
    answers_of_half,
    as_numbers,
    as_processes,
    compile_layouts,
    in_process,
    requests_of,
)

Made = tuple[LoadedPlan, list[Collected]]

# As `two` but for the numbers of ranks: one model tells whether those matter.
ALIKE = {("bagel", "numbers"), ("qwen3_omni", "numbers")}
# Messages that may be under way between two processes.
HIGH_WATER_MARK = 10


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """A model's plan, and what one rank answers."""
    known: dict[str, Made] = {}

    def make(name: str) -> Made:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            plan = compile_layouts(name, folder / "plan")
            with in_process(plan, "one", folder) as ranks:
                known[name] = plan, answers(ranks, requests_of(name))
        return known[name]

    return make


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        pytest.param(
            *(tiny.name, layout),
            marks=[pytest.mark.slow] if (tiny.name, layout) in ALIKE else [],
        )
        for tiny in MODELS.values()
        for layout in tiny.layouts
        if layout != "one"
    ],
)
def test_every_layout_gives_the_answers_of_one_rank(
    name: str, layout: str, whole: Callable[[str], Made], tmp_path: Path
) -> None:
    plan, expected = whole(name)
    with as_processes(plan, layout.replace(" ", "_"), tmp_path, HIGH_WATER_MARK) as ranks:
        made = answers(ranks, requests_of(name))
        assert [one.failure for one in made] == [None] * len(made)
        made += answers_of_half(ranks, requests_of(name)[:8], Random(layout))
        held = ranks.conductor.snapshot()
    assert [one.failure for one in made] == [None] * len(made)
    assert held["requests"] == held["taken_slots"] == 0
    for one, other in zip(made, [*expected, *expected[:8:2]], strict=True):
        assert other.events[-1] == "finished"
        compare(one, other, exactly="tp2" not in layout)


def test_a_follower_that_is_killed_ends_the_requests_and_is_named(
    whole: Callable[[str], Made], tmp_path: Path
) -> None:
    plan, _ = whole("orpheus")
    with as_processes(plan, "tp2", tmp_path, HIGH_WATER_MARK) as ranks:
        made = [Collected() for _ in range(4)]
        for listener, request in zip(made, requests_of("orpheus"), strict=False):
            ranks.conductor.submit(request, listener)
        for _ in range(20):
            ranks.turn()
        os.kill(ranks.pids[1], signal.SIGKILL)
        killed = time.monotonic()
        run_until_done(ranks)
        assert time.monotonic() - killed < 2.0
    for one in made:
        assert one.failure is not None
        assert one.failure.code in ("MS9301", "MS9311")
        assert "rank 1" in one.failure.message


def compare(one: Collected, other: Collected, *, exactly: bool) -> None:
    """The same bytes; where sums were made of parts, the same texts and nearly the same tensors."""
    found, wanted = as_numbers(one), as_numbers(other)
    assert found.keys() == wanted.keys()
    assert one.texts == other.texts
    for name, values in wanted.items():
        if exactly or not values.size:
            assert np.array_equal(found[name], values), name
            continue
        # A colour is a whole number of 255.
        near = 1 if values.dtype.kind in "iu" else 1e-5
        assert found[name].shape == values.shape
        assert np.abs(found[name].astype(np.float64) - values).max() <= near, name

"""Real models on many layouts, all ranks in one process: what is cancelled leaves nothing."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mstarc_runtime.launch import LocalRanks, run_until_done
from tests.runtime.rig import Collected
from tests.support.layout_runs import MODELS, compile_layouts, in_process, requests_of

COUNT = 8


def snapshot(ranks: LocalRanks) -> list[Any]:
    return [ranks.conductor.snapshot(), *(worker.snapshot() for worker in ranks.workers)]


@pytest.mark.parametrize("name", MODELS)
def test_requests_that_are_cancelled_leave_nothing_on_any_layout(name: str, tmp_path: Path) -> None:
    plan = compile_layouts(name, tmp_path / "plan")
    requests = requests_of(name)[:COUNT]
    expected: list[Collected] = []
    for layout in MODELS[name].layouts:
        if "tp2" in layout:
            continue  # parts of a group wait for one another: they are processes, or threads
        with in_process(plan, layout.replace(" ", "_"), tmp_path) as ranks:
            before = snapshot(ranks)
            made = [Collected() for _ in requests]
            numbers = [
                ranks.conductor.submit(request, listener)
                for request, listener in zip(requests, made, strict=True)
            ]
            expected = expected or made
            random = Random(len(layout))
            for number in numbers[1::2] if expected is not made else ():
                for _ in range(random.randint(0, 12)):
                    ranks.turn()
                ranks.conductor.cancel(number)
            run_until_done(ranks)
            for _ in range(20):
                ranks.turn()
            assert snapshot(ranks) == before, layout
            for index, (one, other) in enumerate(zip(made, expected, strict=True)):
                assert one.is_over
                assert one.failure is None
                if index % 2 == 0:
                    assert (one.values, one.texts) == (other.values, other.texts), layout

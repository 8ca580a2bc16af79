"""Steps that land later than they are launched: the same bytes, and no item read too late."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import mstarc_runtime.stepping
from mstarc_runtime.flights import Flight, Flights, sets_beside
from mstarc_runtime.plan_api import DeviceStep, Step
from mstarc_runtime.stretches import Stretch
from tests.runtime.plan_folder import write_plan
from tests.runtime.test_determinism import PROMPTS, speak


class Slow(Flights):
    """Every machine but the first is beside it, and what it launches takes three turns."""

    launched = 0

    def __init__(self, steps: Sequence[Step], *others: Any) -> None:
        super().__init__(steps, *others)
        for machines in sets_beside(steps):
            self._streams.update(dict.fromkeys(machines))
        self._ages: dict[int, int] = {}

    def begin(self, flight: Flight) -> None:
        Slow.launched += 1
        self._ages[id(flight)] = 0
        super().begin(flight)

    def landing(self) -> Iterator[Flight | Stretch]:
        for flight in list(self._under_way):
            self._ages[id(flight)] += 1
            if self._ages[id(flight)] > 3:
                yield self._end(flight)


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan("orpheus", tmp_path_factory.mktemp("plan"))


def test_requests_say_the_same(plan_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [(prompt, seed) for seed, prompt in enumerate(PROMPTS)]
    plain = speak(plan_folder, requests, stagger=2)
    monkeypatch.setattr(mstarc_runtime.stepping, "Flights", Slow)
    Slow.launched = 0
    assert speak(plan_folder, requests, stagger=2) == plain
    assert Slow.launched > 10


def step(name: str, *nodes: str, rows: str = "shaped") -> DeviceStep:
    return DeviceStep(id=0, name=name, run=print, nodes=nodes, rows=rows, then=0, line=1)  # type: ignore[arg-type]


def test_machines_that_share_a_node_share_a_queue() -> None:
    steps = [
        step("think.a", "vision"),
        step("think.b", "llm", rows="one"),
        step("talk.a", "talker"),
        step("write.a", "llm"),
        step("draw.a", "vae"),
        step("dub.a", "talker", "codec"),
    ]
    assert set(sets_beside(steps)) == {frozenset({"draw"}), frozenset({"talk", "dub"})}
    assert sets_beside([step("hear.a", "codec")]) == []

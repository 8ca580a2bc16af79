"""Steps that land later than they are launched: the same bytes, and no item read too late."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import mstarc_runtime.stepping
from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.choosing import RowChooser
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.flights import Flight, Flights, sets_beside
from mstarc_runtime.launch import LocalRanks
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.plan_api import DeviceStep, Step
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.scheduler import Station
from mstarc_runtime.stretches import Stretch
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import write_plan
from tests.runtime.rig import Collected, nowhere
from tests.runtime.test_determinism import PROMPTS, speak


class Slow(Flights):
    """Every machine but the first is beside it, and what it launches takes some looks."""

    launched = 0
    looks = 3

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
            if self._ages[id(flight)] > self.looks:
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


def test_a_rank_does_not_rest_while_steps_are_under_way(
    plan_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sends a message when the device has done a step: a rank that rests sleeps on."""
    monkeypatch.setattr(mstarc_runtime.stepping, "Flights", Slow)
    monkeypatch.setattr(Slow, "looks", 30)
    plan = load_plan(plan_folder)
    ranks = LocalRanks(
        plan,
        load_placement(plan, "cpu"),
        settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1),
        progress=PlainProgress(nowhere()),
        make_pool=lambda wake: InlinePool(),
    )
    listener = Collected()
    asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": 28})
    Slow.launched = 0
    ranks.conductor.submit(prepare(plan, asked, seed=1), listener)
    while not listener.events or listener.events[-1] != "finished":
        under_way = any(worker.stepper.flights.count for worker in ranks.workers)
        assert ranks.turn() or not under_way
    assert Slow.launched == 1


def step(name: str, *nodes: str, rows: str = "shaped") -> DeviceStep:
    return DeviceStep(id=0, name=name, run=print, nodes=nodes, rows=rows, then=0, line=1)  # type: ignore[arg-type]


def test_what_a_choice_of_rows_brings_to_the_device_is_on_the_queue_of_the_step(
    plan_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on: list[DeviceStep] = []
    chosen: list[str] = []
    choose = RowChooser.choose

    @contextmanager
    def queue(self: Flights, step: DeviceStep) -> Iterator[None]:
        on.append(step)
        yield
        on.pop()

    def noted(self: RowChooser, station: Station, step: DeviceStep) -> list[int]:
        assert on == [step]
        chosen.append(step.name)
        return choose(self, station, step)

    monkeypatch.setattr(Flights, "queue", queue)
    monkeypatch.setattr(RowChooser, "choose", noted)
    assert speak(plan_folder, [("hello", 1)], stagger=0)
    assert "vocoder.listen.vocode" in chosen


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


def test_machines_of_nodes_in_shards_are_on_the_main_queue() -> None:
    steps = [
        step("think.a", "llm", rows="one"),
        step("talk.a", "talker", rows="one"),
        step("draw.a", "vae"),
        step("dub.a", "codec"),
    ]
    # Who follows both does in one order what two queues here would mix.
    assert set(sets_beside(steps, {"llm", "talker"})) == {frozenset({"draw"}), frozenset({"dub"})}


def test_it_is_known_since_when_the_device_is_at_the_first_of_them() -> None:
    flights = Flights([], torch.device("cpu"))
    since_s = [flights.since_s]
    made = [Mock(wait=lambda: None) for _ in range(2)]
    for one in made:
        one.station.away = []
        flights.begin(one)
    since_s.append(flights.since_s)
    for _ in flights.finish():
        since_s.append(flights.since_s)
    assert since_s[0] is since_s[3] is None
    assert since_s[1] is not None and since_s[2] is not None
    assert 0 < since_s[1] <= since_s[2] <= time.monotonic()

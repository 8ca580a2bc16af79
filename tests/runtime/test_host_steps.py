"""Host steps behind one another are one job: a request goes to the pool and comes back once."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
import torch

from mstarc_runtime.engine.host import ThreadPool
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.plan_api import HostStep, Media
from tests.runtime.rig import Collected
from tests.support import pi05_cases
from tests.support.tiny_plan import ranks_of, submit


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRanks]:
    ranks = ranks_of("pi05", tmp_path_factory.mktemp("plan"))
    yield ranks
    ranks.close()


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    found: list[Callable[[], Any]] = []
    submit_ = ThreadPool.submit

    def noted(self: ThreadPool, work: Callable[[], Any], done: Any) -> None:
        found.append(work)
        submit_(self, work, done)

    monkeypatch.setattr(ThreadPool, "submit", noted)
    return found


def _acted(ranks: LocalRanks, state: torch.Tensor, picture: bytes | None = None) -> Collected:
    buffer = BytesIO()
    pi05_cases.image("base").save(buffer, "PNG")
    content = buffer.getvalue() if picture is None else picture
    inputs = {"order": "lift it", "state": state, "base": Media(kind="image", content=content)}
    listener = submit(ranks, ["actions"], inputs, {"steps": 1})
    run_until_done(ranks)
    return listener


def _jobs_counted(ranks: LocalRanks) -> dict[str, int]:
    worker = ranks.workers[0]
    names = {step.id: step.name for step in worker.plan.steps if isinstance(step, HostStep)}
    costs = worker.costs.by_step
    return {names[number]: cost.runs for number, cost in costs.items() if number in names}


def test_two_host_steps_are_one_job(policy: LocalRanks, jobs: list[Any]) -> None:
    before = _jobs_counted(policy)
    assert _acted(policy, torch.zeros(6)).events[-1] == "finished"
    assert len(jobs) == 1
    after = _jobs_counted(policy)
    for name in ("main.read.images", "main.read.order"):
        assert after[name] == before.get(name, 0) + 1


def test_the_step_that_fails_ends_its_request(policy: LocalRanks, jobs: list[Any]) -> None:
    nothing = policy.workers[0].snapshot()
    failure = _acted(policy, torch.full((6,), float("nan"))).failure
    assert failure is not None
    assert failure.code == "MS9216"
    before = _jobs_counted(policy)
    failure = _acted(policy, torch.zeros(6), picture=b"no picture").failure
    assert failure is not None
    assert failure.code == "MS9206"
    assert _jobs_counted(policy)["main.read.order"] == before["main.read.order"]
    assert len(jobs) == 2
    assert policy.workers[0].snapshot() == nothing

"""Host steps behind one another are one job: a request goes to the pool and comes back once."""

import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
import torch

from mstarc_runtime import host_stepping
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

    def noted(self: ThreadPool, work: Callable[[], Any], done: Any, *, here: bool) -> None:
        found.append(work)
        submit_(self, work, done, here=here)

    monkeypatch.setattr(ThreadPool, "submit", noted)
    return found


def _acted(ranks: LocalRanks, state: torch.Tensor, picture: bytes | None = None) -> Collected:
    listener = _submitted(ranks, state, picture)
    run_until_done(ranks)
    return listener


def _submitted(ranks: LocalRanks, state: torch.Tensor, picture: bytes | None = None) -> Collected:
    buffer = BytesIO()
    pi05_cases.image("base").save(buffer, "PNG")
    content = buffer.getvalue() if picture is None else picture
    inputs = {"order": "lift it", "state": state, "base": Media(kind="image", content=content)}
    return submit(ranks, ["actions"], inputs, {"steps": 1})


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


def test_quick_code_of_a_request_that_is_alone_runs_where_it_is_dispatched(
    policy: LocalRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = policy.workers[0].parts.host["frontend"]
    order, threads = engine.order, []

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return order(*given)

    monkeypatch.setattr(engine, "order", noted, raising=False)
    here = threading.current_thread()
    _acted(policy, torch.zeros(6))
    monkeypatch.setattr(host_stepping, "_QUICK_NS", 1 << 60)
    alone = _acted(policy, torch.zeros(6))
    assert alone.events[-1] == "finished"
    assert [thread is here for thread in threads][-1:] == [True]
    threads.clear()
    both = [_submitted(policy, torch.zeros(6)) for _ in range(2)]
    run_until_done(policy)
    assert [each.events[-1] for each in both] == ["finished", "finished"]
    assert here not in threads
    monkeypatch.setattr(host_stepping, "_QUICK_NS", 0)
    _acted(policy, torch.zeros(6))
    assert here not in threads


def test_quick_code_that_fails_ends_its_request(
    policy: LocalRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    _acted(policy, torch.zeros(6))
    monkeypatch.setattr(host_stepping, "_QUICK_NS", 1 << 60)
    failure = _acted(policy, torch.full((6,), float("nan"))).failure
    assert failure is not None
    assert failure.code == "MS9216"
    assert _acted(policy, torch.zeros(6)).events[-1] == "finished"

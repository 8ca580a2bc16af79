"""A failure ends the request that it belongs to, says where it happened, and leaves nothing."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.errors import render
from mstarc_runtime.models.llama import Decoder
from mstarc_schedule.batching import BatchPolicy
from tests.runtime.test_ranks import Adder, Host, Left, check_answer, make_rig


def test_one_failing_request_of_a_batch_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = Host.prompt

    def raising(self: Host, state: list[int], length: int) -> Tensor:
        if length == 13:
            raise ValueError("no such prompt")
        return prompt(self, state, length)

    monkeypatch.setattr(Host, "prompt", raising)
    rig = make_rig()
    lengths = [3, 13, 4, 5]
    made = [rig.submit(passes=6, walks=1, length=length)[1] for length in lengths]
    rig.run()
    for length, one in zip(lengths, made, strict=True):
        if length != 13:
            check_answer(one, 6, 1)
            continue
        assert one.failure is not None
        assert one.failure.code == "MS9304"
        text = render(one.failure)
        assert "speak.encode" in text
        assert "`host`" in text
        assert "test.mstar:1" in text
        assert "no such prompt" in text
    rig.check_clean()


@pytest.mark.parametrize(
    "policy",
    [BatchPolicy(deterministic=False), BatchPolicy(deterministic=True, tile_rows=3)],
    ids=["batched", "deterministic"],
)
def test_a_failing_row_of_a_device_step_ends_alone(
    monkeypatch: pytest.MonkeyPatch, policy: BatchPolicy
) -> None:
    expected = make_rig(policy=policy)
    wanted = [expected.submit(passes=8, walks=0, length=n)[1] for n in (3, 4, 5, 6)]
    expected.run()
    step = Decoder.step
    calls = {"failed": 0}

    def raising(self: Decoder, ctx: Any, token: Tensor) -> Tensor:
        # The request in slot 1, in its third pass: its context then holds 4 + 3 rows.
        made = step(self, ctx, token)
        if (7, 1) in zip(ctx.positions.tolist(), ctx._host_slots(), strict=True):
            calls["failed"] += 1
            raise RuntimeError("a number that is none")
        return made

    monkeypatch.setattr(Decoder, "step", raising)
    rig = make_rig(policy=policy)
    made = [rig.submit(passes=8, walks=0, length=n)[1] for n in (3, 4, 5, 6)]
    rig.run()
    assert calls["failed"] >= 1
    for index, (one, want) in enumerate(zip(made, wanted, strict=True)):
        if index == 1:
            assert one.failure is not None
            assert re.search(r"speak\.decode.*failed: RuntimeError", one.failure.message)
        else:
            assert one.values == want.values
    rig.check_clean()


def test_a_request_that_needs_more_context_than_there_is_says_so() -> None:
    rig = make_rig()
    _, long = rig.submit(passes=80, walks=0, length=10)
    _, short = rig.submit(passes=5, walks=0, length=3)
    rig.run()
    assert long.failure is not None
    assert long.failure.code == "MS9309"
    assert "max_seq_len" in long.failure.helps[0]
    check_answer(short, 5, 0)
    rig.check_clean()


def test_a_request_that_is_too_long_for_all_pages_ends() -> None:
    class Short(Left):
        pages = 5  # of 4 rows

    rig = make_rig(left=Short)
    made = [rig.submit(passes=passes, walks=0, length=8)[1] for passes in (9, 20, 11)]
    rig.run()
    check_answer(made[0], 9, 0)
    check_answer(made[2], 11, 0)
    assert made[1].failure is not None
    assert made[1].failure.code in ("MS9305", "MS9309")
    rig.check_clean()


def test_an_undeclared_result_names_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adder, "total", lambda self, ctx, window: torch.zeros(17))
    rig = make_rig()
    _, made = rig.submit(passes=6, walks=0, length=3)
    rig.run()
    assert made.failure is not None
    assert "listen.each" in render(made.failure)
    rig.check_clean()


def test_a_job_that_ends_after_its_request_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig()
    number, made = rig.submit(passes=4, walks=0, length=3)
    left = rig.workers[0]
    left._receive()
    station = left.scheduler.station(0)
    left.stepper.run(station)  # the host job is in flight now
    assert left.pool.running == 1
    rig.conductor.cancel(number)
    left._receive()
    assert left.snapshot()["requests"] == 1, "the slot is held until the job has ended"
    rig.run()
    assert made.events == ["cancelled"]
    rig.check_clean()

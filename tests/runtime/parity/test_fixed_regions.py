"""Calls of as many rows a request, in regions as a GPU would capture them: the public values.

The strict double of a CUDA graph notes each region once, at start-up, and replays it on the memory
of then. Requests of several lengths, alone and side by side, get what the public code gives.
"""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.fake import FakeCapture, FakeGraphExecutor
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.engine.pass_log import PassesRead
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.plan_api import Media
from tests.support import pi05_cases, vjepa2_ac_cases
from tests.support.films import film_of
from tests.support.golden import ROOT
from tests.support.parity import relative_error
from tests.support.tiny_plan import ranks_of, submit

CLOSE = 1e-5


def _captured(name: str, folder: Path, stretch: int) -> tuple[LocalRanks, FakeGraphExecutor]:
    executor = FakeGraphExecutor()
    ranks = ranks_of(
        name,
        folder,
        executor=executor,
        attention=lambda cache: TorchAttention(cache, row_by_row=False),
        stretch=stretch,
        deterministic=False,
        buckets=(1, 2, 4),
    )
    return ranks, executor


def _png(image: Any) -> Media:
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return Media(kind="image", content=buffer.getvalue())


@pytest.mark.parametrize("stretch", [0, 4])
def test_actions_of_a_captured_flow_are_the_public_ones(tmp_path: Path, stretch: int) -> None:
    ranks, executor = _captured("pi05", tmp_path, stretch)
    public = load_file(ROOT / "tests/runtime/parity/pi05.safetensors")
    cases = pi05_cases.CASES

    def ask(case: pi05_cases.Case) -> Any:
        cameras = {name: _png(pi05_cases.image(name)) for name in case.cameras}
        inputs = {"order": case.order, "state": case.state_tensor, **cameras}
        return submit(ranks, ["actions"], inputs, {"steps": case.steps, "seed": case.seed})

    for wave in [[case] for case in cases] + [list(cases)]:
        got = [ask(case) for case in wave]
        run_until_done(ranks)
        for case, listener in zip(wave, got, strict=True):
            (actions,) = listener.values["actions"]
            wanted = public[case.name]
            assert relative_error(torch.as_tensor(actions), wanted) < CLOSE
    assert executor.replays >= 2 * sum(case.steps for case in cases) - max(c.steps for c in cases)


@pytest.mark.parametrize(("steps", "looks"), [(10, 2), (4, 0), (1, 0)])
def test_what_follows_a_flow_is_launched_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, looks: int
) -> None:
    """How many passes there are is known: nobody asks the device about the last of them."""
    asked: list[int] = []

    def has_come(self: PassesRead) -> bool:
        asked.append(len(self.flags))
        return True

    ranks, executor = _captured("pi05", tmp_path, 4)
    monkeypatch.setattr(PassesRead, "has_come", has_come)
    inputs = {
        "order": "lift it",
        "state": pi05_cases.CASES[0].state_tensor,
        "base": _png(pi05_cases.image("base")),
    }
    replays = executor.replays
    listener = submit(ranks, ["actions"], inputs, {"steps": steps})
    run_until_done(ranks)
    assert len(listener.values["actions"]) == 1
    # The noise is a region of its own.
    assert executor.replays - replays == steps + 1
    assert asked == [4] * looks


@pytest.mark.parametrize("stretch", [0, 4])
def test_frames_of_a_captured_rollout_are_the_public_ones(tmp_path: Path, stretch: int) -> None:
    pytest.importorskip("av")
    ranks, executor = _captured("vjepa2_ac", tmp_path, stretch)
    public = load_file(ROOT / "tests/runtime/parity/vjepa2_ac.safetensors")
    frames = [vjepa2_ac_cases.image(number) for number in range(vjepa2_ac_cases.FRAMES)]
    inputs = {
        "clip": film_of(frames),
        "poses": vjepa2_ac_cases.poses(),
        "actions": vjepa2_ac_cases.actions(),
    }
    for horizons in ([4], [1, 15, 2]):
        got = [submit(ranks, ["rollout"], inputs, {"horizon": horizon}) for horizon in horizons]
        run_until_done(ranks)
        for horizon, listener in zip(horizons, got, strict=True):
            (rollout,) = listener.values["rollout"]
            found = torch.as_tensor(rollout)
            assert relative_error(found, public["rollout"][:horizon]) < CLOSE
    assert executor.replays >= 4 + 15


def test_prompts_and_towers_by_shape_give_the_public_actions(tmp_path: Path) -> None:
    """The first request of a shape runs call by call, the second is captured, others replay it."""
    ranks, _ = _captured("pi05", tmp_path, 0)
    public = load_file(ROOT / "tests/runtime/parity/pi05.safetensors")
    captured: list[FakeCapture] = []

    def capture(body: Callable[[], None]) -> FakeCapture:
        captured.append(FakeCapture(body))
        return captured[-1]

    (worker,) = ranks.workers
    worker.parts.stateless["vit_encoder"].graphs = OpGraphs(capture)
    worker.parts.kv["llm"].graphs = OpGraphs(capture)
    case = pi05_cases.CASES[0]
    for _ in range(4):
        cameras = {name: _png(pi05_cases.image(name)) for name in case.cameras}
        inputs = {"order": case.order, "state": case.state_tensor, **cameras}
        listener = submit(ranks, ["actions"], inputs, {"steps": case.steps, "seed": case.seed})
        run_until_done(ranks)
        (actions,) = listener.values["actions"]
        assert relative_error(torch.as_tensor(actions), public[case.name]) < CLOSE
    assert len(captured) == 2

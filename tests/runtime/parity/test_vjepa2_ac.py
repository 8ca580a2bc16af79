"""V-JEPA 2-AC's plan gives what Meta's code gives, float32 on a CPU, the same weights.

A rollout through the cache equals one that computes all frames anew in every step;
`tests.support.vjepa2_ac_reference` computed the values once.
"""

from io import BytesIO
from math import pi

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.models.vjepa2_ac.planning import bounded
from mstarc_runtime.models.vjepa2_ac.poses import angles, moved, rotation
from mstarc_runtime.plan_api import Media
from tests.runtime.rig import Collected
from tests.support.films import film_of
from tests.support.golden import ROOT
from tests.support.parity import relative_error
from tests.support.tiny_plan import ranks_of, submit
from tests.support.vjepa2_ac_cases import (
    FRAMES,
    HORIZON,
    PLAN,
    SEED,
    actions,
    candidates,
    image,
    poses,
)

pytest.importorskip("av")

CLOSE = 1e-5


@pytest.fixture(scope="module")
def public() -> dict[str, Tensor]:
    return load_file(ROOT / "tests/runtime/parity/vjepa2_ac.safetensors")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> LocalRanks:
    return ranks_of("vjepa2_ac", tmp_path_factory.mktemp("plan"))


def _ask(ranks: LocalRanks, *wants: str, options: dict[str, int] | None = None) -> Collected:
    buffer = BytesIO()
    image(9).save(buffer, "PNG")
    inputs = {
        "clip": film_of([image(number) for number in range(FRAMES)]),
        "poses": poses(),
        "actions": actions(),
        "goal": Media(kind="image", content=buffer.getvalue()),
        "candidates": candidates(),
    }
    return submit(ranks, wants, inputs, {"seed": SEED} | (options or {}))


def _only(listener: Collected, output: str) -> Tensor:
    assert listener.failure is None, listener.failure
    (value,) = listener.values[output]
    return torch.tensor(value)


def test_features_and_the_frame_behind_each_frame(
    ranks: LocalRanks, public: dict[str, Tensor]
) -> None:
    listener = _ask(ranks, "features", "prediction")
    run_until_done(ranks)
    assert relative_error(_only(listener, "features"), public["features"]) < CLOSE
    assert relative_error(_only(listener, "prediction"), public["prediction"]) < CLOSE


def test_rollouts_of_any_horizon_side_by_side(ranks: LocalRanks, public: dict[str, Tensor]) -> None:
    listeners = {
        horizon: _ask(ranks, "rollout", "foreseen", options={"horizon": horizon})
        for horizon in (1, 4, HORIZON)
    }
    run_until_done(ranks)
    for horizon, listener in listeners.items():
        wanted = public["rollout"][:horizon]
        assert relative_error(_only(listener, "rollout"), wanted) < CLOSE
        assert relative_error(torch.tensor(listener.values["foreseen"]), wanted) < CLOSE


def test_candidates_are_weighed_and_a_plan_is_found(
    ranks: LocalRanks, public: dict[str, Tensor]
) -> None:
    listener = _ask(ranks, "scores", "plan", "costs", options=PLAN)
    alone = _ask(ranks, "plan", options=PLAN)
    other = _ask(ranks, "plan", options={**PLAN, "seed": SEED + 1})
    run_until_done(ranks)
    assert relative_error(_only(listener, "scores"), public["scores"]) < CLOSE
    plan = _only(listener, "plan")
    assert relative_error(plan, public["plan"]) < CLOSE
    assert torch.equal(_only(alone, "plan"), plan)
    assert not torch.equal(_only(other, "plan"), plan)
    assert _only(listener, "costs").shape == (PLAN["rounds"], PLAN["samples"])


def test_poses_behind_moves(public: dict[str, Tensor]) -> None:
    pose = poses()[:1]
    for number, wanted in enumerate(public["poses"]):
        pose = moved(pose, actions()[number : number + 1])
        assert torch.allclose(pose[0], wanted, atol=1e-5)


def test_turns_and_angles_are_one_anothers_inverse() -> None:
    turn = torch.tensor([[0.1, -1.2, 3.0], [pi / 2, 0.3, -2.0], [-3.0, 1.5, 0.0]])
    assert torch.allclose(angles(rotation(turn)).float(), turn, atol=1e-6)
    matrix = rotation(turn)
    unit = torch.eye(3, dtype=torch.float64).expand(3, 3, 3)
    assert torch.allclose(matrix @ matrix.transpose(1, 2), unit)


def test_drawn_moves_have_bounds_and_turn_nothing() -> None:
    moves = bounded(torch.full((2, 7), 9.0))
    assert moves[0].tolist() == pytest.approx([0.05, 0.05, 0.05, 0.0, 0.0, 0.0, 0.75])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"poses": poses()[:2]}, "poses"),
        ({"poses": poses()[:, :5]}, "poses"),
        ({"actions": actions()[:1]}, "actions"),
        ({"extrinsics": torch.zeros(6)}, "extrinsics"),
    ],
)
def test_what_does_not_fit_a_clip_is_refused(
    ranks: LocalRanks, change: dict[str, Tensor], word: str
) -> None:
    inputs = {"clip": film_of([image(0)] * FRAMES), "poses": poses(), "actions": actions()}
    listener = submit(ranks, ["rollout"], inputs | change, {"horizon": 2})
    run_until_done(ranks)
    assert listener.failure is not None and word in listener.failure.message

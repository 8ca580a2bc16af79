"""π0.5's plan gives what openpi's PyTorch code gives, float32 on a CPU, the same weights and noise.

`tests.support.pi05_reference` computed the values once. The prefix that actions attend to is the
same in each of their steps: nothing that a step writes is seen by the next.
"""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.models.pi05 import Experts, Frontend
from mstarc_runtime.models.pi05.frontend import squared, state_steps
from mstarc_runtime.plan_api import Media
from tests.runtime.rig import Collected
from tests.support.golden import ROOT
from tests.support.parity import relative_error
from tests.support.pi05_cases import CASES, Case, image, own_module, weights
from tests.support.tiny_plan import ranks_of, submit

CLOSE = 1e-5
CONFIG: dict[str, Any] = weights()["frontend"]["config"]
HORIZON = CONFIG["chunk_size"]
# Where the rows of each call stood, request by request.
POSITIONS: list[list[int]] = []


class Watched(Experts):
    """Notes where the actions' rows stand."""

    def denoise(self, ctx: KVContext, x: Tensor, t: Tensor) -> Tensor:
        POSITIONS.extend(ctx.positions.view(-1, HORIZON).tolist())
        return super().denoise(ctx, x, t)


@pytest.fixture(scope="module")
def public() -> dict[str, Tensor]:
    return load_file(ROOT / "tests/runtime/parity/pi05.safetensors")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> LocalRanks:
    folder = tmp_path_factory.mktemp("plan")
    return ranks_of("pi05", folder, implementations={"pi05:Experts": Watched})


def _camera(name: str) -> Media:
    buffer = BytesIO()
    image(name).save(buffer, "PNG")
    return Media(kind="image", content=buffer.getvalue())


def _ask(ranks: LocalRanks, case: Case) -> Collected:
    inputs = {
        "order": case.order,
        "state": case.state_tensor,
        **{name: _camera(name) for name in case.cameras},
    }
    return submit(ranks, ["actions"], inputs, {"steps": case.steps, "seed": case.seed})


def _actions(listener: Collected) -> Tensor:
    assert listener.failure is None, listener.failure
    (value,) = listener.values["actions"]
    return torch.tensor(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_actions_are_the_public_ones(
    case: Case, ranks: LocalRanks, public: dict[str, Tensor]
) -> None:
    listener = _ask(ranks, case)
    run_until_done(ranks)
    assert relative_error(_actions(listener), public[case.name]) < CLOSE


def test_each_request_of_a_batch_gets_its_own(
    ranks: LocalRanks, tmp_path: Path, public: dict[str, Tensor]
) -> None:
    """Of other cameras, orders and numbers of steps, one by one and sharing calls."""
    sharing = ranks_of("pi05", tmp_path, deterministic=False)
    for batched in (ranks, sharing):
        listeners = [_ask(batched, case) for case in CASES]
        run_until_done(batched)
        for case, listener in zip(CASES, listeners, strict=True):
            assert relative_error(_actions(listener), public[case.name]) < CLOSE


def test_steps_leave_the_prefix_as_it_is(ranks: LocalRanks) -> None:
    case = CASES[0]
    POSITIONS.clear()
    _ask(ranks, case)
    run_until_done(ranks)
    ids = Frontend.build(CONFIG, folder=None).order(case.order, case.state_tensor)
    prefix = 3 * (CONFIG["vision_config"]["image_size"] // 14) ** 2 + len(ids)
    behind = list(range(prefix, prefix + HORIZON))
    assert [behind] * case.steps == POSITIONS


def test_state_is_written_in_256_steps() -> None:
    numbers = torch.tensor([-1.0, -0.9999, -0.9922, 0.0, 0.999, 1.0, 2.0, -1.5])
    assert state_steps(numbers) == [0, 0, 0, 128, 255, 255, 255, -1]
    front = Frontend.build(CONFIG, folder=None)
    said = "".join(chr(32 + token) for token in front.order(" a_b\n", torch.tensor([0.0]))[1:])
    # The letters of a tiny vocabulary have no line break: it is their first.
    assert said == "Task: a b, State: 128; Action: "


def test_images_keep_their_proportions() -> None:
    square = squared(torch.ones(3, 10, 20), 28)
    assert square.shape == (3, 28, 28)
    assert bool((square[:, :7] == -1.0).all()) and bool((square[:, 21:] == -1.0).all())
    assert torch.allclose(square[:, 7:21], torch.ones(3, 14, 28))


def test_tower_stays_in_float32() -> None:
    tower = type(own_module("VisionTower", "vit_encoder")).build(
        CONFIG, dtype=torch.bfloat16, device=torch.device("cpu")
    )
    assert {parameter.dtype for parameter in tower.parameters()} == {torch.float32}
    assert tower.out_dtype == torch.bfloat16


@pytest.mark.parametrize("state", [(), (0.0,) * 7, (float("nan"),)])
def test_a_state_that_is_none_is_refused(ranks: LocalRanks, state: tuple[float, ...]) -> None:
    inputs = {"order": "go", "state": torch.tensor(state), "base": _camera("base")}
    listener = submit(ranks, ["actions"], inputs)
    run_until_done(ranks)
    assert listener.failure is not None and "state" in listener.failure.message

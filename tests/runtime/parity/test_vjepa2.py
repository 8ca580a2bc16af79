"""V-JEPA 2's modules and its plan give what `transformers.VJEPA2Model` gives, float32, one CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from mstarc.source import SourceFile
from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.models.vjepa2 import Encoder, Frontend, Predictor
from mstarc_runtime.plan_api import Media
from mstarc_runtime.weights.load import load
from tests.runtime.rig import Collected
from tests.support.films import film_of
from tests.support.parity import relative_error
from tests.support.shipped_specs import SPECS_BY_NAME
from tests.support.tiny_plan import ranks_of, submit
from tests.support.vjepa2_ac_cases import image

transformers = pytest.importorskip("transformers")
pytest.importorskip("av")

CLOSE = 1e-5
CPU = torch.device("cpu")
CONFIG: dict[str, Any] = yaml.safe_load(SPECS_BY_NAME["vjepa2"].sizes.text)["weights"]["frontend"][
    "config"
]
CELLS = (CONFIG["crop_size"] // CONFIG["patch_size"]) ** 2


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A reference model with random weights, and the folder of its checkpoint."""
    model = transformers.VJEPA2Model(transformers.VJEPA2Config(**CONFIG)).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    return model, folder


def film(frames: int) -> Media:
    return film_of([image(number) for number in range(frames)])


def _context(batch: int = 1) -> StatelessContext:
    return StatelessContext(batch=batch, device=CPU)


def _module(kind: Any, folder: Path, under: str) -> Any:
    made = kind.build(CONFIG, dtype=torch.float32, device=CPU)
    load(made, folder, under=under)
    return made


def _clips(*counts: int) -> list[Tensor]:
    front = Frontend.build(CONFIG, folder=None)
    return [front.clip(film(count)) for count in counts]


@torch.no_grad()
def test_features(public: tuple[Any, Path]) -> None:
    model, folder = public
    encoder = _module(Encoder, folder, "encoder.")
    # The second film is longer than the model was trained with, the third has an odd frame.
    for px, frames in zip(_clips(8, 20, 3), (8, 8, 4), strict=True):
        assert px.shape == (frames, 3, 64, 64)
        found = encoder.encode(_context(), px[None])
        wanted = model(pixel_values_videos=px[None], skip_predictor=True).last_hidden_state
        assert relative_error(found, wanted) < CLOSE


@torch.no_grad()
def test_prediction_of_rows_that_are_not_shown(public: tuple[Any, Path]) -> None:
    model, folder = public
    predictor = _module(Predictor, folder, "predictor.")
    z = torch.randn(2, 4 * CELLS, 48, generator=torch.Generator().manual_seed(1))
    shown = torch.stack((torch.arange(40), torch.arange(10, 50)))
    asked = torch.stack((torch.arange(40, 64), torch.arange(60, 84).flip(0)))
    found = predictor.predict(_context(2), z, shown, asked)
    wanted = model.predictor(z, [shown], [asked]).last_hidden_state
    assert relative_error(found, wanted) < CLOSE


@torch.no_grad()
def test_what_comes_behind_the_clip(public: tuple[Any, Path]) -> None:
    model, folder = public
    predictor = _module(Predictor, folder, "predictor.")
    z = torch.randn(1, 4 * CELLS, 48, generator=torch.Generator().manual_seed(2))
    assert relative_error(predictor.foresee(_context(), z), _foreseen(model, z)) < CLOSE


def _foreseen(model: Any, z: Tensor) -> Tensor:
    rows = torch.arange(z.shape[1] + CELLS)[None]
    wanted: Tensor = model.predictor(
        z, [rows[:, : z.shape[1]]], [rows[:, z.shape[1] :]]
    ).last_hidden_state
    return wanted


@pytest.fixture(scope="module")
def ranks(public: tuple[Any, Path], tmp_path_factory: pytest.TempPathFactory) -> LocalRanks:
    """The compiled plan, with the checkpoint's weights."""
    spec = SPECS_BY_NAME["vjepa2"]
    sizes = yaml.safe_load(spec.sizes.text)
    for node, under in (("video_encoder", "encoder."), ("predictor", "predictor.")):
        sizes["weights"][node] = {"source": str(public[1]), "under": under}
    return ranks_of(
        "vjepa2",
        tmp_path_factory.mktemp("plan"),
        sizes=SourceFile(path="sizes.yaml", text=yaml.safe_dump(sizes)),
    )


def _submit(
    ranks: LocalRanks, wants: set[str], *, frames: int = 8, horizon: int = 1, **inputs: Any
) -> Collected:
    return submit(ranks, wants, {"clip": film(frames), **inputs}, {"horizon": horizon})


def _only(listener: Collected, output: str) -> Tensor:
    assert listener.failure is None, listener.failure
    (value,) = listener.values[output]
    return torch.tensor(value)


@torch.no_grad()
def test_a_plan_gives_each_request_what_it_asks_for(
    public: tuple[Any, Path], ranks: LocalRanks
) -> None:
    """Features, masked prediction and rollouts of several horizons, all at once."""
    model = public[0]
    context, target = torch.arange(0, 48), torch.arange(48, 64)
    masked = _submit(ranks, {"prediction"}, context=context, target=target)
    whole = _submit(ranks, {"features", "prediction"}, frames=4)
    rolled = {
        horizon: _submit(ranks, {"rollout", "foreseen"}, horizon=horizon) for horizon in (1, 4)
    }
    run_until_done(ranks)
    px, short = _clips(8, 4)
    z = model(pixel_values_videos=px[None], skip_predictor=True).last_hidden_state
    wanted = model.predictor(z, [context[None]], [target[None]]).last_hidden_state[0]
    assert relative_error(_only(masked, "prediction"), wanted) < CLOSE
    both = model(pixel_values_videos=short[None])
    assert relative_error(_only(whole, "features"), both.last_hidden_state[0]) < CLOSE
    predicted = both.predictor_output.last_hidden_state[0]
    assert relative_error(_only(whole, "prediction"), predicted) < CLOSE
    for horizon, listener in rolled.items():
        steps, seen = [], z
        for _ in range(horizon):
            steps.append(_foreseen(model, seen)[0])
            seen = torch.cat((seen[:, CELLS:], steps[-1][None]), dim=1)
        assert relative_error(_only(listener, "rollout"), torch.stack(steps)) < CLOSE
        foreseen = torch.tensor(listener.values["foreseen"])
        assert relative_error(foreseen, torch.stack(steps)) < CLOSE


@pytest.mark.parametrize("target", [[], [-1], [1000], [0.5]])
def test_rows_that_a_clip_does_not_have_are_refused(ranks: LocalRanks, target: list[float]) -> None:
    listener = _submit(ranks, {"prediction"}, target=torch.tensor(target))
    run_until_done(ranks)
    assert listener.failure is not None and "target" in listener.failure.message


def test_what_is_no_film_is_refused() -> None:
    with pytest.raises(RuntimeFailure) as caught:
        Frontend.build(CONFIG, folder=None).clip(Media(kind="video", content=b"no film"))
    assert caught.value.code == "MS9206"

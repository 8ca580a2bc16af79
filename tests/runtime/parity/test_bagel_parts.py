"""BAGEL's modules give what the public implementation gives, float32, the same weights.

The values were computed once by `tests.support.bagel_reference`, which says how.
"""

from io import BytesIO

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.models import bagel
from mstarc_runtime.models.bagel import Frontend
from mstarc_runtime.models.bagel.sizes import Bounds
from mstarc_runtime.plan_api import Maybe, Media
from tests.support.bagel_cases import SEED, SIDES, own_module, sample_image, tiny_weights
from tests.support.golden import ROOT
from tests.support.parity import relative_error

CLOSE = 1e-5


@pytest.fixture(scope="module")
def public() -> dict[str, Tensor]:
    return load_file(ROOT / "tests/runtime/parity/bagel.safetensors")


def _context(batch: int = 1) -> StatelessContext:
    return StatelessContext(batch=batch, device=torch.device("cpu"))


def _file(image: object, kind: str = "PNG") -> Media:
    buffer = BytesIO()
    image.save(buffer, kind)  # type: ignore[attr-defined]
    return Media(kind="image", content=buffer.getvalue())


def _frontend() -> Frontend:
    return Frontend.build(tiny_weights()["frontend"]["config"], folder=None)


def test_image_is_what_both_readers_take(public: dict[str, Tensor]) -> None:
    patches, places, px = _frontend().image(_file(sample_image()))
    assert torch.equal(places, public["frontend.places"])
    assert torch.allclose(patches, public["frontend.patches"], atol=1e-6)
    assert torch.allclose(px, public["frontend.px"], atol=1e-6)


def test_sides_are_the_public_ones(public: dict[str, Tensor]) -> None:
    pixels = 14 * 14 * 9 * 1024
    drawn = Bounds(least=512, most=1024, step=16, pixels=pixels)
    seen = Bounds(least=224, most=980, step=14, pixels=pixels)
    ours = [[*drawn.size(*drawn.size(*side)), *seen.size(*drawn.size(*side))] for side in SIDES]
    assert ours == public["frontend.sides"].tolist()


def test_clear_images_stand_on_white() -> None:
    clear = sample_image().convert("RGBA")
    clear.putalpha(0)
    _, _, px = _frontend().image(_file(clear))
    assert torch.equal(px, torch.ones_like(px))


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="can't be read") as caught:
        _frontend().image(Media(kind="image", content=b"not an image"))
    assert caught.value.code == "MS9206"


def test_turn_is_text_between_marks() -> None:
    assert _frontend().text("A!").tolist() == [124, 33, 1, 125]


def test_vision_tower(public: dict[str, Tensor]) -> None:
    tower = own_module("VisionTower", "vit_encoder")
    patches, places = public["frontend.patches"], public["frontend.places"]
    rows = tower.encode(_context(), patches[None], places[None])[0]
    assert relative_error(rows[1:-1], public["vision.rows"]) < CLOSE
    assert not rows[0].any() and not rows[-1].any()


def test_vae_encoder(public: dict[str, Tensor]) -> None:
    encoder = own_module("VaeEncoder", "vae_encoder")
    px, seed = public["frontend.px"][None], torch.tensor([SEED])
    assert relative_error(encoder.cells(px, seed).flatten(0, 2), public["encoder.cells"]) < CLOSE
    rows = encoder.encode(_context(), px, seed)[0]
    assert relative_error(rows[1:-1], public["encoder.rows"]) < CLOSE
    assert not rows[0].any() and not rows[-1].any()


def test_vae_decoder(public: dict[str, Tensor]) -> None:
    decoder = own_module("VaeDecoder", "vae_decoder")
    height, width = public["decoder.px"].shape[1:]
    x = torch.nn.functional.pad(public["encoder.cells"], (0, 0, 1, 1))[None]
    made = decoder.decode(_context(), x, torch.tensor([height]), torch.tensor([width]))[0]
    wanted = ((public["decoder.px"] * 0.5 + 0.5).clamp(0, 1) * 255).to(torch.uint8)
    assert made.dtype == torch.uint8
    # A colour may round to its neighbour.
    assert int((made.int() - wanted.int()).abs().max()) <= 1


@pytest.mark.parametrize("least", [0.0, 0.7])
@pytest.mark.parametrize("image_scale", [1.0, 2.0])
@pytest.mark.parametrize("renorm", ["global", "channel", "text_channel"])
def test_guidance(public: dict[str, Tensor], renorm: str, image_scale: float, least: float) -> None:
    given = [public[f"guidance.given.{number}"] for number in range(3)]
    v, no_text, no_image = (torch.nn.functional.pad(part, (0, 0, 1, 1))[None] for part in given)
    guided = own_module("Guidance", "guide").combine(
        _context(),
        v,
        no_text,
        Maybe(no_image, torch.tensor([True])) if image_scale > 1.0 else None,
        torch.tensor([4.0]),
        torch.tensor([image_scale]),
        torch.tensor([least]),
        torch.tensor([renorm != "global"]),
        torch.tensor([renorm == "text_channel"]),
    )[0]
    wanted = public[f"guidance.{renorm}.{image_scale}.{least}"]
    assert relative_error(guided[1:-1], wanted) < CLOSE
    assert not guided[0].any() and not guided[-1].any()


def test_each_request_of_a_batch_is_guided_its_own_way(public: dict[str, Tensor]) -> None:
    given = [public[f"guidance.given.{number}"] for number in range(3)]
    v, no_text, no_image = (part.expand(4, *part.shape) for part in given)
    ways = [("global", 1.0), ("channel", 2.0), ("text_channel", 2.0), ("text_channel", 1.0)]
    guided = own_module("Guidance", "guide").combine(
        _context(4),
        v,
        no_text,
        Maybe(no_image, torch.tensor([scale > 1.0 for _, scale in ways])),
        torch.full((4,), 4.0),
        torch.tensor([scale for _, scale in ways]),
        torch.full((4,), 0.7),
        torch.tensor([renorm != "global" for renorm, _ in ways]),
        torch.tensor([renorm == "text_channel" for renorm, _ in ways]),
    )
    for row, (renorm, scale) in enumerate(ways):
        assert relative_error(guided[row], public[f"guidance.{renorm}.{scale}.0.7"]) < CLOSE


def test_drawings_begin_with_a_noise_of_the_seed() -> None:
    guide = own_module("Guidance", "guide")
    cells = torch.tensor([40, 40])
    noise = guide.noise(_context(2), torch.tensor([1, 2]), cells)
    alone = guide.noise(_context(), torch.tensor([2]), cells[:1])
    assert noise.shape == (2, 42, 64) and torch.equal(noise[1], alone[0])
    values = noise[:, 1:-1].numpy()
    assert abs(float(np.mean(values))) < 0.05 and abs(float(np.std(values)) - 1.0) < 0.05
    assert not noise[:, 0].any() and not noise[:, -1].any()


@pytest.mark.parametrize(
    ("class_name", "node", "millions"),
    [
        ("MixtureOfTransformers", "llm", 14_170.2),
        ("VisionTower", "vit_encoder", 437.1),
        ("VaeEncoder", "vae_encoder", 63.0),
        ("VaeDecoder", "vae_decoder", 49.5),
        ("Guidance", "guide", 0.0),
    ],
)
def test_full_sizes_are_the_public_ones(class_name: str, node: str, millions: float) -> None:
    text = (ROOT / "specs/random/bagel.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)["weights"][node]["config"]
    made = getattr(bagel, class_name).build(
        config, dtype=torch.bfloat16, device=torch.device("meta")
    )
    count = sum(parameter.numel() for parameter in made.parameters()) / 1e6
    assert round(count, 1) == millions
    assert set(made.weight_map()) == {name for name, _ in made.named_parameters()}


def test_what_a_checkpoint_leaves_out_is_what_the_public_code_sets() -> None:
    text = (ROOT / "specs/random/bagel.yaml").read_text(encoding="utf-8")
    weights = yaml.safe_load(text)["weights"]
    config = {key: weights[node]["config"][key] for node, key in _LISTED}
    for class_name, node in (("MixtureOfTransformers", "llm"), ("VisionTower", "vit_encoder")):
        kind, meta = getattr(bagel, class_name), torch.device("meta")
        short = kind.build(config, dtype=torch.bfloat16, device=meta)
        whole = kind.build(weights[node]["config"], dtype=torch.bfloat16, device=meta)
        shapes = {name: value.shape for name, value in short.named_parameters()}
        assert shapes == {name: value.shape for name, value in whole.named_parameters()}


# What the public config.json surely has.
_LISTED = (("llm", "llm_config"), ("vit_encoder", "vit_config"))

"""Requests that BAGEL is compared on, for the public implementation and for ours.

Sizes and weights are those of `specs/tiny/bagel.yaml`. Texts are letters that are tokens there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image

from mstarc_runtime.models import bagel
from mstarc_runtime.weights.random import randomise
from tests.support.golden import ROOT

SEED = 11
UPDATES = 8
# Widths and heights of images, for the sides that they get in the public sizes.
SIDES = (
    (640, 480),
    (1024, 1024),
    (2000, 1000),
    (300, 300),
    (3000, 200),
    (517, 1031),
    (100, 777),
    (4000, 3000),
)


def tiny_weights() -> Mapping[str, Any]:
    """By node: source, seed and config."""
    text = (ROOT / "specs/tiny/bagel.yaml").read_text(encoding="utf-8")
    weights: Mapping[str, Any] = yaml.safe_load(text)["weights"]
    return weights


def own_module(class_name: str, node: str) -> Any:
    """A module with the random weights that the tiny sizes give its node."""
    weights = tiny_weights()[node]
    cpu = torch.device("cpu")
    made = getattr(bagel, class_name).build(weights["config"], dtype=torch.float32, device=cpu)
    randomise(made, seed=weights.get("seed", 0))
    return made.requires_grad_(False).eval()


def sample_image(width: int = 90, height: int = 70, turn: int = 0) -> Image.Image:
    """Waves of colour in whole numbers: an image that needs no file and is the same everywhere."""
    down, right = np.mgrid[0:height, 0:width]
    waves = [
        abs((right * (5 + 2 * colour) + down * (7 - 2 * colour) + turn) % 510 - 255)
        for colour in range(3)
    ]
    return Image.fromarray(np.stack(waves, axis=-1).astype(np.uint8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request. `parts` are texts and images; with `thinks` the first is the system's."""

    name: str
    parts: tuple[str | Image.Image, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    draws: bool = True
    says: bool = False
    thinks: bool = False
    # Tokens of the reply, or of the thought.
    tokens: int = 0

    @property
    def request_options(self) -> dict[str, Any]:
        """Options by the names of the spec."""
        options = {
            "steps": UPDATES + 1,
            "temperature": 0.0,
            "repetition_penalty": 1.0,
            "max_tokens": max(self.tokens, 1),
            "height": 64,
            "width": 96,
            "think": self.thinks,
            "seed": SEED,
        }
        return options | dict(self.options)

    @property
    def wants(self) -> list[str]:
        return ["picture"] * self.draws + ["reply"] * self.says


_EDITED = {"height": 64, "width": 80, "guide_from": 0.0, "image_scale": 2.0}
_EDIT = (sample_image(), "Make it red.")

CASES = (
    Case(name="free", parts=("A red cat",), options={"text_scale": 1.0}),
    Case(name="by_text", parts=("A red cat",)),
    Case(name="by_text_interval", parts=("A cat",), options={"guide_from": 0.3, "guide_to": 0.9}),
    Case(name="by_image_without_one", parts=("A red cat",), options={"image_scale": 1.5}),
    Case(name="edit_global", parts=_EDIT, options=_EDITED),
    Case(name="edit_channel", parts=_EDIT, options=_EDITED | {"renorm": "channel"}),
    Case(
        name="edit_text_channel",
        parts=_EDIT,
        options=_EDITED | {"renorm": "text_channel", "renorm_min": 0.3, "shift": 1.5},
    ),
    Case(
        name="several_turns",
        parts=("Two things", sample_image(60, 80, 100), "and", sample_image(), "as one."),
        options={"height": 64, "width": 80, "text_scale": 3.0, "image_scale": 1.5},
    ),
    Case(
        name="thought",
        parts=("Think first.", "A red cat"),
        says=True,
        thinks=True,
        tokens=6,
    ),
    Case(
        name="thought_and_edit",
        parts=("Think first.", sample_image(), "Make it red."),
        options=_EDITED,
        says=True,
        thinks=True,
        tokens=5,
    ),
    Case(
        name="understood",
        parts=(sample_image(), "What is it?"),
        draws=False,
        says=True,
        tokens=16,
    ),
    Case(name="talked", parts=("Hello", "How are you?"), draws=False, says=True, tokens=12),
)

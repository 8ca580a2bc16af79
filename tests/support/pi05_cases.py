"""What π0.5 is compared on, for openpi's implementation and for ours.

Sizes and weights are those of `specs/tiny/pi05.yaml`; images are whole numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from torch import Tensor

from mstarc_runtime.models import pi05
from mstarc_runtime.weights.random import randomise
from tests.support.shipped_specs import SPECS_BY_NAME

CAMERAS = ("base", "left_wrist", "right_wrist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request: which cameras there are, what is ordered, the state, and how many steps."""

    name: str
    cameras: tuple[str, ...]
    order: str
    state: tuple[float, ...]
    steps: int
    seed: int

    @property
    def state_tensor(self) -> Tensor:
        return torch.tensor(self.state)


CASES = (
    Case(
        name="three_cameras",
        cameras=CAMERAS,
        order="fold the red_shirt",
        state=(0.1, -0.5, 0.9, -1.0, 1.0),
        steps=10,
        seed=3,
    ),
    Case(name="one_camera", cameras=("base",), order="stop", state=(0.0,), steps=4, seed=4),
    Case(
        name="no_left_wrist",
        cameras=("base", "right_wrist"),
        order="put it into the box and close the lid",
        state=(0.25, 0.75),
        steps=1,
        seed=5,
    ),
)


def weights() -> Mapping[str, Any]:
    """By node: source, seed and config."""
    found: Mapping[str, Any] = yaml.safe_load(SPECS_BY_NAME["pi05"].sizes.text)["weights"]
    return found


def own_module(class_name: str, node: str) -> Any:
    """A module with the random weights that the tiny sizes give its node."""
    given = weights()[node]
    made = getattr(pi05, class_name).build(
        given["config"], dtype=torch.float32, device=torch.device("cpu")
    )
    randomise(made, seed=given.get("seed", 0))
    return made.requires_grad_(False).eval()


def image(camera: str) -> Image.Image:
    """What a camera sees: bars, wider than high."""
    number = CAMERAS.index(camera)
    down, right = np.mgrid[0:40, 0:60]
    colours = [(right * (3 + c) + down * (2 + number) + number * 50) % 256 for c in range(3)]
    return Image.fromarray(np.stack(colours, axis=-1).astype(np.uint8))

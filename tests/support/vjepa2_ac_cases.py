"""What V-JEPA 2-AC is compared on, for Meta's implementation and for ours.

Sizes and weights are those of `specs/tiny/vjepa2_ac.yaml`. Frames, poses and moves are scaled whole
numbers: they need no file and are the same everywhere.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from torch import Tensor

from mstarc_runtime.models import vjepa2_ac
from mstarc_runtime.weights.random import randomise
from tests.support.shipped_specs import SPECS_BY_NAME

FRAMES = 4
HORIZON = 15
SEED = 5
PLAN = {"samples": 8, "elites": 3, "rounds": 2, "horizon": 2}


def weights() -> Mapping[str, Any]:
    """By node: source, seed and config."""
    found: Mapping[str, Any] = yaml.safe_load(SPECS_BY_NAME["vjepa2_ac"].sizes.text)["weights"]
    return found


def own_module(class_name: str, node: str) -> Any:
    """A module with the random weights that the tiny sizes give its node."""
    given = weights()[node]
    made = getattr(vjepa2_ac, class_name).build(
        given.get("config", {}), dtype=torch.float32, device=torch.device("cpu")
    )
    randomise(made, seed=given.get("seed", 0))
    return made.requires_grad_(False).eval()


def image(number: int) -> Image.Image:
    """A frame of moving bars, wider than high."""
    down, right = np.mgrid[0:80, 0:96]
    colours = [(right * (3 + c) + down * 2 + number * 20) % 256 for c in range(3)]
    return Image.fromarray(np.stack(colours, axis=-1).astype(np.uint8))


def poses() -> Tensor:
    """f32[FRAMES, 7]"""
    return _numbers(FRAMES, 7, 3) * torch.tensor([0.5, 0.5, 0.5, 2.0, 1.0, 2.0, 1.0])


def actions() -> Tensor:
    """f32[HORIZON, 7]"""
    return _numbers(HORIZON, 7, 11) * 0.3


def candidates() -> Tensor:
    """f32[samples, horizon, 7]"""
    rows = _numbers(PLAN["samples"] * PLAN["horizon"], 7, 17) * 0.2
    return rows.view(PLAN["samples"], PLAN["horizon"], 7)


def _numbers(rows: int, columns: int, step: int) -> Tensor:
    """Numbers in -1 .. 1, the same everywhere."""
    counted = torch.arange(1, rows * columns + 1) * step * 7919 % 1000
    return counted.view(rows, columns) / 500.0 - 1.0

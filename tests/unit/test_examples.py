"""Arrays of answers become pictures."""

import importlib.util
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from tests.support.golden import ROOT


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", ROOT / "examples/draw.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_frames_of_features_stand_side_by_side(draw: ModuleType) -> None:
    values = np.random.default_rng(0).normal(size=(1, 3 * 16, 8)).astype(np.float32)
    image = draw.cells(values, 4)
    assert isinstance(image, Image.Image)
    assert image.size == ((3 * 5 - 1) * draw.CELL, 4 * draw.CELL)


def test_columns_become_lines(draw: ModuleType) -> None:
    image = draw.lines(np.linspace(-1, 1, 20, dtype=np.float32).reshape(1, 10, 2))
    drawn = {colour for _, colour in image.getcolors(image.width * image.height)}
    assert len(drawn) == 3

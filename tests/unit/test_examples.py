"""Examples do what they say: arrays become pictures, and a rate is held."""

import importlib.util
import sys
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from tests.support.golden import ROOT


def _example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    return _example("draw")


@pytest.fixture(scope="module")
def control_loop() -> ModuleType:
    return _example("control_loop")


def test_frames_of_features_stand_side_by_side(draw: ModuleType) -> None:
    values = np.random.default_rng(0).normal(size=(1, 3 * 16, 8)).astype(np.float32)
    image = draw.cells(values, 4)
    assert isinstance(image, Image.Image)
    assert image.size == ((3 * 5 - 1) * draw.CELL, 4 * draw.CELL)


def test_columns_become_lines(draw: ModuleType) -> None:
    image = draw.lines(np.linspace(-1, 1, 20, dtype=np.float32).reshape(1, 10, 2))
    drawn = {colour for _, colour in image.getcolors(image.width * image.height)}
    assert len(drawn) == 3


def test_actions_begin_where_they_were_asked_for(control_loop: ModuleType) -> None:
    actions = control_loop.Actions(ahead=2)
    actions.ask(0)
    actions.arrive([[0.0], [1.0], [2.0], [3.0]])
    assert not actions.must_ask(1) and actions.must_ask(2)
    actions.ask(2)
    assert [actions.at(tick) for tick in (2, 3)] == [[2.0], [3.0]] and not actions.must_ask(3)
    # Two ticks have passed since: their actions are of the past.
    actions.arrive([[20.0], [30.0], [40.0], [50.0]])
    assert actions.at(4) == [40.0] and actions.held == 0


def test_the_last_action_is_held_where_the_next_come_too_late(control_loop: ModuleType) -> None:
    actions = control_loop.Actions(ahead=1)
    assert actions.at(0) is None
    actions.ask(0)
    actions.arrive([[0.0], [1.0]])
    actions.ask(1)
    assert [actions.at(tick) for tick in (1, 2, 3)] == [[1.0], [1.0], [1.0]]
    assert actions.held == 3
    # All that comes is of the past by then.
    actions.arrive([[10.0], [20.0]])
    assert actions.at(9) == [20.0]

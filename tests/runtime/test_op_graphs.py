"""Calls by shape: the first runs, the second is captured, from then on graphs are replayed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.engine.fake import FakeCapture
from mstarc_runtime.engine.op_graphs import MOST, CudaCapture, OpGraphs
from mstarc_runtime.plan_api import Maybe


class Counted:
    """Notes what is captured, and how often an op's own code runs."""

    def __init__(self) -> None:
        self.captured = 0
        self.ran = 0
        self.graphs = OpGraphs(self._capture)

    def _capture(self, body: Callable[[], None]) -> FakeCapture:
        self.captured += 1
        return FakeCapture(body)

    def op(self, x: Tensor, more: Maybe) -> tuple[Tensor, Tensor]:
        self.ran += 1
        return x * 2 + more.value, x.sum(-1)

    def run(self, x: Tensor, more: float) -> Any:
        there = Maybe(torch.full_like(x, more), torch.ones(len(x), dtype=torch.bool))
        return self.graphs.run("op", 1, [x, there], lambda: partial(self.op))


def test_a_shape_that_comes_again_is_replayed_on_new_values() -> None:
    world = Counted()
    kept = []
    for number in range(5):
        x = torch.full((2, 3), float(number))
        doubled, summed = world.run(x, number + 1.0)
        assert doubled.tolist() == [[3.0 * number + 1.0] * 3] * 2
        assert summed.tolist() == [3.0 * number] * 2
        kept.append(doubled)
    assert (world.ran, world.captured) == (2, 1)
    # What was given is the caller's own: later calls leave it alone.
    assert [int(each[0, 0]) for each in kept] == [1, 4, 7, 10, 13]


def test_other_shapes_have_graphs_of_their_own_and_old_ones_make_room() -> None:
    world = Counted()
    for size in range(1, MOST + 2):
        for _ in range(3):
            world.run(torch.ones(1, size), 0.0)
    assert (world.ran, world.captured) == (2 * (MOST + 1), MOST + 1)
    world.run(torch.ones(1, 1), 0.0)
    assert world.ran == 2 * (MOST + 1) + 1


def test_an_op_may_give_nothing() -> None:
    kept = torch.zeros(2)
    graphs = OpGraphs(FakeCapture)
    for number in range(4):
        x = torch.full((2,), float(number))
        assert graphs.run("read", 1, [x], lambda: lambda given: void(kept.copy_(given))) is None
        assert kept.tolist() == [float(number)] * 2


def void(_: object) -> None: ...


@pytest.mark.gpu
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_shape_is_captured_while_the_device_is_at_work(is_beside: bool) -> None:
    """A capture waits for nothing under way, and its graph runs behind that all the same."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    matrix = torch.randn(4096, 4096, device="cuda") / 64
    graphs = OpGraphs(CudaCapture())
    queue = torch.cuda.Stream() if is_beside else torch.cuda.current_stream()

    def op(x: Tensor) -> Tensor:
        return x @ matrix[:64, :64] + 1

    with torch.cuda.stream(queue):
        x = torch.randn(8, 64, device="cuda")
        graphs.run("op", 1, [x], lambda: op)
        torch.cuda.synchronize()
        done = torch.cuda.Event()
        late = matrix
        for _ in range(200):
            late = late @ matrix
        late_x = late[:8, :64].contiguous()
        done.record()
        first = graphs.run("op", 1, [late_x], lambda: op)  # captures
        assert not done.query(), "a capture has waited for the device"
        again = graphs.run("op", 1, [x], lambda: op)
    torch.cuda.synchronize()
    torch.testing.assert_close(first, op(late_x))
    torch.testing.assert_close(again, op(x))

"""Calls by shape: the first runs, the second is captured, from then on graphs are replayed."""

import gc
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakSet

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


class Captures:
    """In place of torch's graphs: notes what happens to them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.pools: list[int] = []
        self.live: WeakSet[Any] = WeakSet()
        self.breaks = False
        noted = self

        class Graph:
            def __init__(self) -> None:
                noted.live.add(self)

            def capture_begin(self, *, pool: int, capture_error_mode: str) -> None:
                assert capture_error_mode == "thread_local"
                noted.pools.append(pool)
                noted.done.append("begin")

            def capture_end(self) -> None:
                noted.done.append("end")
                if noted.breaks:
                    raise RuntimeError("operation failed due to a previous error during capture")

        handles = count(1)
        for name, made in {
            "CUDAGraph": Graph,
            "current_stream": lambda: "main",
            "Stream": object,
            "stream": lambda side: nullcontext(),
            "graph_pool_handle": lambda: next(handles),
            "synchronize": lambda: self.done.append("synchronize"),
            "empty_cache": lambda: self.done.append("empty_cache"),
        }.items():
            patch.setattr(torch.cuda, name, made)


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> Captures:
    return Captures(monkeypatch)


def test_memory_of_graphs_lives_when_all_that_are_used_are_gone(captures: Captures) -> None:
    capture = CudaCapture()
    for _ in range(3):
        capture(lambda: None)
    gc.collect()
    assert captures.pools == [1, 1, 1]
    assert len(captures.live) == 1
    assert captures.done == ["begin", "end"] * 3


def test_memory_is_given_back_where_a_capture_finds_too_little(captures: Captures) -> None:
    def body() -> None:
        if "empty_cache" not in captures.done:
            raise torch.OutOfMemoryError("CUDA out of memory")

    CudaCapture()(body)
    assert captures.done == ["begin", "end", "synchronize", "empty_cache", "begin", "end"]
    assert captures.pools == [1, 1]


def test_an_error_within_a_capture_is_the_one_that_is_told(captures: Captures) -> None:
    def body() -> None:
        raise ValueError("a result of another shape")

    capture = CudaCapture()
    for captures.breaks in (False, True):
        with pytest.raises(ValueError, match="another shape"):
            capture(body)
    assert captures.done == ["begin", "end"] * 2
    captures.breaks = False
    capture(lambda: None)
    # Torch would take nothing else into the memory of a capture that it could not end.
    assert captures.pools == [1, 1, 2]


@pytest.mark.gpu
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_shape_is_captured_while_the_device_is_at_work(is_beside: bool) -> None:
    """A capture on a machine's own queue waits for nothing under way, and its graph runs behind
    that all the same. On the main queue it was seen to wait (torch 2.11), and gives the same."""
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
        assert not (is_beside and done.query()), "a capture has waited for the device"
        again = graphs.run("op", 1, [x], lambda: op)
    torch.cuda.synchronize()
    torch.testing.assert_close(first, op(late_x))
    torch.testing.assert_close(again, op(x))


@pytest.mark.gpu
@pytest.mark.parametrize("fails", ["", "raises", "reads"])
def test_a_device_captures_again_when_no_graph_is_left_or_one_has_failed(fails: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    x = torch.arange(8.0, device="cuda")
    given: list[Tensor] = []

    def body() -> None:
        given[:] = [x * 2 + 1]

    def failing() -> None:
        body()
        if fails == "reads":
            given[0].sum().item()
        raise ValueError("the body's own")

    body()
    capture = CudaCapture()
    if fails:
        with pytest.raises(ValueError if fails == "raises" else RuntimeError):
            capture(failing)
    for _ in range(3):
        graph = capture(body)
        x.add_(1)
        graph.replay()
        torch.testing.assert_close(given[0], x * 2 + 1)
        given.clear()
        del graph
        gc.collect()

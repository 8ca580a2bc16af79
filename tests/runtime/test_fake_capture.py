"""The rules of capture, without a GPU: what a graph could not hold is an error with its reason."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mstarc_runtime.engine.fake import CaptureError, FakeCapture

X = torch.arange(6.0).view(2, 3)
ONE = torch.tensor(1)


def void(_: object) -> None: ...


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda: X.sum().item(), ".item()"),
        (lambda: X.tolist(), ".tolist()"),
        (lambda: X.numpy(), ".numpy()"),
        (lambda: bool(X.sum() > 0), "bool(tensor)"),
        (lambda: int(X.sum()), "int(tensor)"),
        (lambda: float(X.sum()), "float(tensor)"),
        (lambda: [0, 1, 2][ONE], "index from a tensor"),
        (lambda: torch.equal(X, X), "reads a value on the host"),
        (lambda: X.nonzero(), "shape that depends on values"),
        (lambda: X[X > 2], "shape that depends on values"),
        (lambda: torch.masked_select(X, X > 2), "shape that depends on values"),
        (lambda: X[: X.sum().to(torch.int64)], "reads a value on the host"),
        (lambda: torch.tensor([1.0]) + X, "torch.tensor() copies from the host"),
        (lambda: torch.as_tensor([1.0]) + X, "torch.as_tensor() copies from the host"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(body: Callable[[], object], reason: str) -> None:
    with pytest.raises(CaptureError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        FakeCapture(lambda: void(body()))


def test_a_tensor_that_is_taken_as_it_is_may_be_captured() -> None:
    FakeCapture(lambda: void(torch.as_tensor(X) + 1))


def test_a_replay_reads_new_inputs_and_leaves_results_where_they_were() -> None:
    source, state = torch.zeros(3), torch.zeros(3)
    made: dict[str, Tensor] = {}

    def body() -> None:
        made["sum"] = (source * 2).view(3, 1).squeeze(1) + state
        state.add_(1)

    graph = FakeCapture(body)
    result = made["sum"]
    source.fill_(5.0)
    graph.replay()
    assert made["sum"] is result
    assert result.tolist() == [11.0] * 3
    assert state.tolist() == [2.0] * 3
    graph.replay()
    assert result.tolist() == [12.0] * 3


def test_a_number_that_has_changed_is_found() -> None:
    scale = {"by": 2.0}

    def body() -> None:
        X.mul(scale["by"])

    graph = FakeCapture(body, check=True)
    graph.replay()
    scale["by"] = 3.0
    with pytest.raises(CaptureError, match="would now be"):
        graph.replay()


def test_a_new_shape_is_found() -> None:
    inputs = {"x": X}

    def body() -> None:
        inputs["x"].exp()

    graph = FakeCapture(body, check=True)
    inputs["x"] = torch.ones(5)
    with pytest.raises(CaptureError):
        graph.replay()


def test_an_extra_call_is_found() -> None:
    calls = [1]

    def body() -> None:
        for _ in calls:
            X.exp()

    graph = FakeCapture(body, check=True)
    calls.append(2)
    with pytest.raises(CaptureError, match="1 operations were captured, and there are 2"):
        graph.replay()

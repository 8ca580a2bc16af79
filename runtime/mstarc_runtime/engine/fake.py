"""Captures on a CPU, so that the rules of CUDA graphs can be tested without a GPU.

`FakeCapture` notes a body's tensor operations once and replays them on the same memory. What a
real capture could not hold is an error with its reason: a value read on the host (`.item()`,
`.tolist()`, `bool(tensor)`, `.numpy()`), a tensor made of a list, a shape that depends on values,
and at a replay a shape other than the captured one. With `check`, the body runs again at every
replay, and an operation or a Python number other than the noted one is an error: a graph would have
gone on with the old one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.eager import body_of
from mstarc_runtime.engine.regions import (
    CaptureError,
    is_capturable,
    region_steps,
    rows_to_capture,
)
from mstarc_runtime.plan_api import DeviceStep, Rank

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

_READS_ON_HOST = {
    Tensor.item: ".item()",
    Tensor.tolist: ".tolist()",
    Tensor.numpy: ".numpy()",
    Tensor.__bool__: "bool(tensor)",
    Tensor.__int__: "int(tensor)",
    Tensor.__float__: "float(tensor)",
    Tensor.__index__: "an index from a tensor",
}
# Of a list or an array: a copy from memory that the device can't wait for.
_MADE_ON_HOST = (torch.tensor, torch.as_tensor, torch.from_numpy, Tensor.new_tensor)
_SHAPED_BY_VALUES = ("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim")
_READ_OPS = ("aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero")


@dataclass(frozen=True, slots=True)
class _Call:
    function: Any
    args: Any
    kwargs: Any
    out: Any

    def signature(self) -> tuple[Any, ...]:
        """The operation, its shapes and its Python numbers."""
        flat, _ = tree_flatten((self.args, self.kwargs))
        return (
            str(self.function),
            *(tuple(v.shape) if isinstance(v, Tensor) else v for v in flat),
        )


class _HostReads(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        what = _READS_ON_HOST.get(func)
        if what is not None:
            raise CaptureError(f"{what} reads a value on the host, inside a captured region")
        if func in _MADE_ON_HOST and not (args and isinstance(args[0], Tensor)):
            raise CaptureError(
                f"torch.{func.__name__}() copies from the host, inside a captured region"
            )
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it so
        self.calls: list[_Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        if name in _READ_OPS:
            raise CaptureError(f"{name} reads a value on the host, inside a captured region")
        if name in _SHAPED_BY_VALUES or (name == "aten::index" and _has_mask(args)):
            raise CaptureError(f"{name} makes a shape that depends on values")
        out = func(*args, **(kwargs or {}))
        self.calls.append(_Call(func, args, kwargs or {}, out))
        return out


class FakeCapture:
    """One body, noted and replayed."""

    def __init__(self, body: Callable[[], None], *, check: bool = False) -> None:
        self._body = body
        self._check = check
        self.calls = self._record()
        self._signatures = [call.signature() for call in self.calls]

    def replay(self) -> None:
        """Does the noted operations on the noted memory."""
        if self._check:
            self._compare()
            return
        for call in self.calls:
            out = call.function(*call.args, **call.kwargs)
            tree_map(_renew, call.out, out)

    def _record(self) -> list[_Call]:
        recorder = _Recorder()
        with recorder, _HostReads():
            self._body()
        return recorder.calls

    def _compare(self) -> None:
        again = [call.signature() for call in self._record()]
        for number, (noted, now) in enumerate(zip(self._signatures, again, strict=False)):
            if noted != now:
                raise CaptureError(
                    f"operation {number} was captured as {noted} and would now be {now}"
                )
        if len(again) != len(self._signatures):
            raise CaptureError(
                f"{len(self._signatures)} operations were captured, and there are {len(again)} now"
            )


class FakeGraphExecutor:
    """As the executor of CUDA graphs, with fake captures."""

    def __init__(self, *, check: bool = False) -> None:
        self.eager_runs: Counter[tuple[str, int]] = Counter()
        self.replays = 0
        self._check = check
        self._graphs: dict[tuple[int, int], FakeCapture] = {}

    def captures(self, step: DeviceStep) -> bool:
        return is_capturable(step)

    def capture(self, worker: "Worker") -> int:
        """Captures every region at every size; how many there are. Raises CaptureError."""
        for step, bucket in region_steps(worker):
            with rows_to_capture(worker, step, bucket) as batch:
                _run(worker.rank, batch)
                self._graphs[(step.id, bucket)] = FakeCapture(
                    lambda batch=batch: _run(worker.rank, batch),  # type: ignore[misc]
                    check=self._check,
                )
        return len(self._graphs)

    def run(self, rank: Rank, batch: StepBatch) -> None:
        graph = self._graphs.get((batch.step.id, batch.bucket))
        if graph is not None:
            self.replays += 1
            graph.replay()
            return
        if is_capturable(batch.step):
            self.eager_runs[(batch.step.name, batch.bucket)] += 1
        _run(rank, batch)


def _run(rank: Rank, batch: StepBatch) -> None:
    batch.begin()
    body_of(batch)(rank, batch)
    batch.end()


def _has_mask(args: Any) -> bool:
    return any(
        isinstance(index, Tensor) and index.dtype == torch.bool
        for index in (args[1] if len(args) > 1 else ())
    )


def _renew(noted: Any, now: Any) -> Any:
    """The memory that the first run has left gets what this one has made."""
    if not isinstance(noted, Tensor):
        return noted
    if noted.shape != now.shape:
        raise CaptureError(f"a result of shape {tuple(noted.shape)} is now {tuple(now.shape)}")
    if noted.data_ptr() != now.data_ptr():
        noted.copy_(now)
    return noted

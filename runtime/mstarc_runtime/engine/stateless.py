"""The engine of nodes without state: an op is a call of the module on a batch of equal shapes."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import StatelessContext


class StatelessEngine:
    """A node of device code without state on one rank."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self.name = name
        self.module = module
        self._calls: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, op: str) -> Callable[..., Any]:
        if op.startswith("_") or not hasattr(self.module, op):
            raise AttributeError(op)
        method: Callable[..., Any] = getattr(self.module, op)

        def call(batch: StepBatch, *arguments: Tensor) -> Any:
            made = StatelessContext(batch=batch.bucket, device=batch.device, old=batch.old)
            return method(made, *arguments)

        # Found without this method from now on.
        self.__dict__[op] = call
        return call

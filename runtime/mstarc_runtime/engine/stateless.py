"""The engine of nodes without state: an op is a call of the module on a batch of equal shapes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.engine.op_results import OpResults


class StatelessEngine:
    """A node of device code without state on one rank."""

    def __init__(
        self,
        name: str,
        module: nn.Module,
        graphs: OpGraphs | None = None,
        results: Mapping[str, OpResults] = {},
    ) -> None:
        self.name = name
        self.module = module
        self.graphs = graphs
        self._results = results
        self._calls: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, op: str) -> Callable[..., Any]:
        if op.startswith("_") or not hasattr(self.module, op):
            raise AttributeError(op)
        method: Callable[..., Any] = getattr(self.module, op)
        if op in self._results:
            method = self._results[op].checked(method)
        graphs = self.graphs if op in getattr(self.module, "by_shape", ()) else None
        plain: Callable[..., Any] = getattr(self.module, op)
        fit = getattr(self.module, f"fit_{op}", None)

        def call(batch: StepBatch, *arguments: Tensor) -> Any:
            made = StatelessContext(batch=batch.bucket, device=batch.device, old=batch.old)
            if graphs is None or batch.step.region is not None:
                return method(made, *arguments)
            if fit is not None:
                # Its own shape is one of many: it is run in one of a few.
                fitted = fit(made, *arguments)
                key = (fitted.context.batch, fitted.context.old)
                whole = partial(plain, fitted.context)
                return fitted.cut(
                    graphs.run(op, key, fitted.arguments, lambda: whole, comes_again=True)
                )
            key = (batch.bucket, batch.old)
            return graphs.run(op, key, arguments, lambda: partial(method, made))

        # Found without this method from now on.
        self.__dict__[op] = call
        return call

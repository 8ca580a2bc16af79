"""A matrix product with weights, and what it promises about rows on a CPU.

A library's matmul may sum in another order for another number of rows, so a request's bits would
depend on how many others share its batch. They do not depend on which row it is in, nor on what the
other rows hold: at a fixed number of rows every row is a function of its own input. So a
deterministic CPU runs every one-row op at one number of rows, padding included, and every packed
op for one request at a time; `tests/runtime/layers/test_determinism.py` checks the promise for
the shapes of the shipped models, packed and not.

`pack` keeps large weights in oneDNN's blocked layout, which few rows run through about twice as
fast as through the plain one (a plain product repacks the matrix in every call).
"""

from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

# Below this size a packed product's fixed cost is more than it saves.
_PACKED_FROM = 1 << 20


class Matrix:
    """A weight [outer, inner] that may be packed; `multiply` takes the plain one beside it."""

    def __init__(self) -> None:
        self._packed: Tensor | None = None

    def pack(self, weight: Tensor, rows: int) -> bool:
        """Packs `weight` if that pays at `rows` rows. The result says if the plain one is spare."""
        if weight.device.type != "cpu" or weight.dtype != torch.float32:
            return False
        if weight.numel() < _PACKED_FROM:
            return False
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
        return True

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x @ weight.T + bias` on the last dim."""
        if self._packed is None:
            return functional.linear(x, weight, bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")
        return product


@runtime_checkable
class Packable(Protocol):
    """A module that can pack its weights for a CPU."""

    def pack(self, rows: int) -> None: ...


def pack(module: nn.Module, *, rows: int) -> None:
    """Packs all weights of `module` that it pays for, for calls of about `rows` rows.

    Call it once, when the weights are loaded. Weights that are packed can't be loaded again.
    """
    for part in module.modules():
        if isinstance(part, Packable):
            part.pack(rows)


class Linear(nn.Module):
    """`x @ weight.T + bias` on the last dim; `weight` is [out_features, in_features]."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = False,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.empty(out_features, in_features, dtype=dtype, device=device), requires_grad=False
        )
        self.bias: nn.Parameter | None = None
        if bias:
            self.bias = nn.Parameter(
                torch.empty(out_features, dtype=dtype, device=device), requires_grad=False
            )
        self._matrix = Matrix()

    def pack(self, rows: int) -> None:
        if self._matrix.pack(self.weight, rows):
            self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self._matrix.multiply(x, self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))

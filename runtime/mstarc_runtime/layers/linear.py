"""A matrix product with weights, and what it promises about rows on a CPU.

A library's matmul may sum in another order for another number of rows, so a request's bits would
depend on how many others share its batch. They do not depend on which row it is in, nor on what the
other rows hold: at a fixed number of rows every row is a function of its own input. So a
deterministic CPU runs every one-row op at one number of rows, padding included, and every packed
op for one request at a time; `tests/runtime/layers/test_determinism.py` checks the promise for
the shapes of the shipped models.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


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

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))

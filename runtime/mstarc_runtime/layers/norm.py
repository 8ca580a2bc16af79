"""Root-mean-square normalisation."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """`x / rms(x) * weight` over the last dim."""

    def __init__(self, width: int, *, eps: float, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(
            torch.empty(width, dtype=dtype, device=device), requires_grad=False
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, self.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))

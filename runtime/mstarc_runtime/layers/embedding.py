"""Rows of a table by id."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Embedding(nn.Module):
    """`weight` [count, width]; ids i64[...] → [..., width]."""

    def __init__(self, count: int, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.empty(count, width, dtype=dtype, device=device), requires_grad=False
        )

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight)

    def __call__(self, ids: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(ids))

"""Rows of a table by id, and the same table as an output head."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.linear import Matrix


class Embedding(nn.Module):
    """`weight` [count, width]; ids i64[...] → [..., width]."""

    def __init__(self, count: int, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.empty(count, width, dtype=dtype, device=device), requires_grad=False
        )
        self._head: Matrix | None = None

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight)

    def __call__(self, ids: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(ids))

    def use_as_head(self) -> None:
        """Lets `project` be called: the table is a model's output matrix too."""
        self._head = Matrix()

    def project(self, x: Tensor) -> Tensor:
        """Products of `x` [..., width] with every row of the table: [..., count]."""
        assert self._head is not None, "this table is not a head"
        return self._head.multiply(x, self.weight, None)

    def pack(self, rows: int) -> None:
        if self._head is not None:
            self._head.pack(self.weight, rows)

"""A prompt of several parts: what encoders have made of all of them → rows where they stand in it,
and of what the Thinker makes of these the rows that the Talker hears.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext


class Prompt(nn.Module):
    """Without weights: rows are put in order."""

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        return cls()

    def rows(
        self, ctx: OpContext, made: Tensor, deep: Tensor, which: Tensor, seen: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`made` [B, R, D] and `deep` [B, N, taps, D] → [B, T, D] and [B, T, taps, D].

        `which` and `seen`, i64[B, T], say which of either stands where; the first are zeros.
        """
        return _taken(made, which), _taken(deep, seen)

    def heard(self, ctx: OpContext, h: Tensor, which: Tensor) -> Tensor:
        """`h` [B, T, D] → [B, H, D], those that `which` i64[B, H] names."""
        return _taken(h, which)


def _taken(rows: Tensor, which: Tensor) -> Tensor:
    wanted = which.view(*which.shape, *(1,) * (rows.dim() - 2))
    return rows.take_along_dim(wanted, dim=1)

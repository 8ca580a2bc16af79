"""Noise to actions: where a flow begins, and a step along it."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.counter_hash import normal

_BEGINNING = 0


class Flow(nn.Module):
    """The node: no weights. `config`: chunk_size, max_action_dim."""

    def __init__(self, horizon: int, numbers: int) -> None:
        super().__init__()
        self._shape = (horizon, numbers)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        return cls(int(required(config, "chunk_size")), int(required(config, "max_action_dim")))

    def weight_map(self) -> Mapping[str, str]:
        return {}

    def noise(self, ctx: OpContext, seed: Tensor) -> Tensor:
        """Where actions begin, f32[B, H, A] of mean 0 and variance 1, of `seed` i64[B]."""
        horizon, numbers = self._shape
        counted = torch.arange(horizon * numbers, device=seed.device)
        return normal(seed[:, None], _BEGINNING, counted).view(-1, horizon, numbers)

    def follow(self, ctx: OpContext, x: Tensor, v: Tensor, steps: Tensor) -> Tensor:
        """Actions `x` f32[B, H, A] one of `steps` i64[B] along `v`."""
        return torch.addcdiv(x, v, steps.float()[:, None, None], value=-1.0)

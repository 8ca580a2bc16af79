"""The gated feed-forward block of Llama-like decoders, whole or one part of a group's."""

from typing import cast

import torch
from torch import Tensor, nn

from mstarc_runtime.layers.parallel import ColumnLinear, RowLinear
from mstarc_runtime.layers.rowwise import gated
from mstarc_runtime.layers.shard import WHOLE, Shard


class GatedMLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`, gate and up as one matrix (gate's rows first)."""

    def __init__(
        self,
        width: int,
        inner: int,
        *,
        bias: bool,
        shard: Shard = WHOLE,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        held = shard.part(inner)
        self.gate_up = ColumnLinear(
            width, [(inner, held), (inner, held)], bias=bias, dtype=dtype, device=device
        )
        self.down = RowLinear(
            inner, width, held=held, shard=shard, bias=bias, dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.down(gated(self.gate_up(x), "silu"))

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))

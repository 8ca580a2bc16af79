"""The gated feed-forward block of Llama-like decoders."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.linear import Linear


class GatedMLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`, gate and up as one matrix (gate's rows first)."""

    def __init__(
        self, width: int, inner: int, *, bias: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        self.gate_up = Linear(width, 2 * inner, bias=bias, dtype=dtype, device=device)
        self.down = Linear(inner, width, bias=bias, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))

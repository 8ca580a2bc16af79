"""A layer of Gemma, and one whose norms a time decides.

A time becomes a row that each norm of a `TimedLayer` turns into three: by how much it scales, by
how much it moves, and how much of what comes out counts beside the residual.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.joined import attend_joined
from mstarc_runtime.layers.linear import Linear

Turns = tuple[Tensor, Tensor]

_EPS = 1e-6


class Norm(nn.Module):
    """`x / rms(x) * (1 + weight)`, in float32."""

    def __init__(self, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.empty(width, dtype=dtype, device=device), requires_grad=False
        )

    def forward(self, x: Tensor) -> Tensor:
        return (_normed(x) * (1.0 + self.weight.float())).to(x.dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x))


class TimedNorm(nn.Module):
    """A norm that a row decides."""

    def __init__(self, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.dense = Linear(width, 3 * width, bias=True, dtype=dtype, device=device)

    def forward(self, x: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
        """The normed rows [R, D], and how much counts [R, D], of rows and their times [R, D]."""
        scale, move, gate = self.dense(time).chunk(3, dim=-1)
        return (_normed(x) * (1.0 + scale.float()) + move.float()).to(x.dtype), gate


def _normed(x: Tensor) -> Tensor:
    return functional.rms_norm(x.float(), (x.shape[-1],), eps=_EPS)


class _Layer(nn.Module):
    """What both kinds have: projections and a gated feed-forward."""

    def __init__(
        self, sizes: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        width = int(required(sizes, "hidden_size"))
        inner = int(required(sizes, "intermediate_size"))
        self.head_count = int(required(sizes, "num_attention_heads"))
        self.kv_heads = int(required(sizes, "num_key_value_heads"))
        self.head_dim = int(required(sizes, "head_dim"))
        rows = (self.head_count + 2 * self.kv_heads) * self.head_dim
        self.qkv = Linear(width, rows, dtype=dtype, device=device)
        self.out = Linear(self.head_count * self.head_dim, width, dtype=dtype, device=device)
        self.gate_up = Linear(width, 2 * inner, dtype=dtype, device=device)
        self.down = Linear(inner, width, dtype=dtype, device=device)

    def attend(self, ctx: KVContext, number: int, x: Tensor, turns: Turns) -> Tensor:
        """What normed rows [R, D] attend to, [R, D]."""
        joined = JoinedHeads(
            qkv=self.qkv(x),
            count=self.head_count,
            turns=turns,
            halves=True,
            scale=self.head_dim**-0.5,
        )
        return self.out(attend_joined(ctx, number, (joined,)))

    def feed(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.gelu(gate, approximate="tanh") * up)


class Layer(_Layer):
    """A layer of the expert that reads."""

    def __init__(
        self, sizes: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(sizes, dtype=dtype, device=device)
        width = int(required(sizes, "hidden_size"))
        self.attention_norm = Norm(width, dtype=dtype, device=device)
        self.mlp_norm = Norm(width, dtype=dtype, device=device)

    def forward(self, ctx: KVContext, number: int, x: Tensor, turns: Turns) -> Tensor:
        """[R, D] → [R, D]"""
        x = x + self.attend(ctx, number, self.attention_norm(x), turns)
        return x + self.feed(self.mlp_norm(x))


class TimedLayer(_Layer):
    """A layer of the expert that acts."""

    def __init__(
        self, sizes: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(sizes, dtype=dtype, device=device)
        width = int(required(sizes, "hidden_size"))
        self.attention_norm = TimedNorm(width, dtype=dtype, device=device)
        self.mlp_norm = TimedNorm(width, dtype=dtype, device=device)

    def forward(self, ctx: KVContext, number: int, x: Tensor, turns: Turns, time: Tensor) -> Tensor:
        """[R, D] → [R, D], of rows and their times."""
        normed, gate = self.attention_norm.forward(x, time)
        x = x + self.attend(ctx, number, normed, turns) * gate
        normed, gate = self.mlp_norm.forward(x, time)
        return x + self.feed(normed) * gate


_PARTS: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("input_layernorm",),
    "attention_norm.dense": ("input_layernorm.dense",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "mlp_norm": ("post_attention_layernorm",),
    "mlp_norm.dense": ("post_attention_layernorm.dense",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


def layer_names(part: str, kind: str, before: str) -> str | tuple[str, ...]:
    """The checkpoint's names of a part of the layer whose names begin with `before`."""
    names = tuple(f"{before}.{piece}.{kind}" for piece in _PARTS[part])
    return names[0] if len(names) == 1 else names

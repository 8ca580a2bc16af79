"""A layer of Gemma, and one whose norms a time decides.

A time becomes a row that each norm of a `TimedLayer` turns into three: by how much it scales, by
how much it moves, and how much of what comes out counts beside the residual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.joined import attend_joined
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.rowwise import RowNorm, added_normed, gated

Turns = tuple[Tensor, Tensor]

EPS = 1e-6


class Norm(nn.Module):
    """`x / rms(x) * (1 + weight)`, in float32."""

    def __init__(self, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(
            torch.empty(width, dtype=dtype, device=device), requires_grad=False
        )

    def of_rows(self) -> RowNorm:
        return RowNorm(kind="rms", scale=self.weight, plus=1.0, eps=EPS)


class TimedNorm(nn.Module):
    """A norm that a row decides. `dense` makes its three rows of a time."""

    def __init__(self, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.dense = Linear(width, 3 * width, bias=True, dtype=dtype, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What times make of a norm: `rows`, and how much counts of what follows it, [B, D]."""

    rows: RowNorm
    gate: Tensor

    @classmethod
    def of(cls, made: Tensor) -> "Timed":
        """Of the product [B, 3 D]."""
        scale, move, gate = made.chunk(3, dim=-1)
        return cls(rows=RowNorm(kind="timed", scale=scale, shift=move, eps=EPS), gate=gate)


class TimedNorms:
    """Norms whose matrices lie one behind the other in memory, so that one product serves all."""

    def __init__(self, norms: Sequence[TimedNorm]) -> None:
        self._count = len(norms)
        self.weight = torch.cat([norm.dense.weight for norm in norms])
        self.bias = torch.cat([_bias(norm) for norm in norms])
        first = 0
        for norm in norms:
            last = first + len(norm.dense.weight)
            norm.dense.weight = nn.Parameter(self.weight[first:last], requires_grad=False)
            norm.dense.bias = nn.Parameter(self.bias[first:last], requires_grad=False)
            first = last

    def of(self, made: Tensor) -> list[Timed]:
        """What times make of each norm, of the product [B, all rows]."""
        return [Timed.of(part) for part in made.chunk(self._count, dim=-1)]


def _bias(norm: TimedNorm) -> Tensor:
    assert norm.dense.bias is not None
    return norm.dense.bias


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
        return self.down(gated(self.gate_up(x), "gelu_tanh"))


class Layer(_Layer):
    """A layer of the expert that reads."""

    def __init__(
        self, sizes: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(sizes, dtype=dtype, device=device)
        width = int(required(sizes, "hidden_size"))
        self.attention_norm = Norm(width, dtype=dtype, device=device)
        self.mlp_norm = Norm(width, dtype=dtype, device=device)

    def forward(
        self,
        ctx: KVContext,
        number: int,
        x: Tensor,
        more: Tensor | None,
        turns: Turns,
        *,
        is_last: bool,
    ) -> tuple[Tensor, Tensor]:
        """Rows [R, D] and what comes to them, of such from the layer before. Nobody reads what the
        last layer makes of rows: it writes keys and values."""
        x, normed = added_normed(x, more, self.attention_norm.of_rows())
        attended = self.attend(ctx, number, normed, turns)
        if is_last:
            return x, attended
        x, normed = added_normed(x, attended, self.mlp_norm.of_rows())
        return x, self.feed(normed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Rows [R, D], what comes to them, and how much of it counts, [B, D]."""

    x: Tensor
    more: Tensor | None = None
    gate: Tensor | None = None


class TimedLayer(_Layer):
    """A layer of the expert that acts."""

    def __init__(
        self, sizes: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__(sizes, dtype=dtype, device=device)
        width = int(required(sizes, "hidden_size"))
        self.attention_norm = TimedNorm(width, dtype=dtype, device=device)
        self.mlp_norm = TimedNorm(width, dtype=dtype, device=device)

    def forward(
        self,
        ctx: KVContext,
        number: int,
        flow: Flow,
        turns: Turns,
        times: tuple[Timed, Timed],
    ) -> Flow:
        """Rows behind the layer, of those before it; `times` are those of its norms."""
        first, second = times
        x, normed = added_normed(flow.x, flow.more, first.rows, gate=flow.gate)
        attended = self.attend(ctx, number, normed, turns)
        x, normed = added_normed(x, attended, second.rows, gate=first.gate)
        return Flow(x=x, more=self.feed(normed), gate=second.gate)


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

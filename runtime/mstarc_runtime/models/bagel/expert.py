"""One expert of a layer: everything in it but the attention between rows.

Rows → queries, keys and values (`joined`); what was attended → the rows
behind the layer (`finish`). Both are a row's own affair, so that two experts can share a call.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.mlp import GatedMLP
from mstarc_runtime.layers.norm import RMSNorm
from mstarc_runtime.layers.parallel import ColumnLinear, RowLinear
from mstarc_runtime.layers.rope import Rope
from mstarc_runtime.layers.rowwise import added_normed, row_norm
from mstarc_runtime.layers.shard import Shard

Turns = tuple[Tensor, Tensor]
"""Cosines and sines f32[r, head_dim]."""
Rows = tuple[Tensor, Tensor | None]
"""Rows [R, width], and what the layer before has made that comes to them."""


class Expert(nn.Module):
    """Projections, feed-forward and norms. `config` has the keys of a Qwen2 config.

    `head_count` and `kv_heads` are those of the shard.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        rope: Rope,
        *,
        shard: Shard,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        eps = float(config.get("rms_norm_eps", 1e-6))
        heads = int(required(config, "num_attention_heads"))
        kv_heads = int(config.get("num_key_value_heads") or heads)
        size = self.head_dim = rope.settings.head_dim
        held, held_kv = shard.heads(heads, "attention heads"), shard.kv_heads(kv_heads)
        self.head_count, self.kv_heads = held[1] - held[0], held_kv[1] - held_kv[0]
        query = (heads * size, (held[0] * size, held[1] * size))
        key = (kv_heads * size, (held_kv[0] * size, held_kv[1] * size))
        self.attention_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.qkv = ColumnLinear(width, [query, key, key], bias=True, dtype=dtype, device=device)
        self.q_norm = RMSNorm(self.head_dim, eps=eps, dtype=dtype, device=device)
        self.k_norm = RMSNorm(self.head_dim, eps=eps, dtype=dtype, device=device)
        self.out = RowLinear(
            query[0], width, held=query[1], shard=shard, dtype=dtype, device=device
        )
        self.mlp_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.mlp = GatedMLP(
            width,
            int(required(config, "intermediate_size")),
            bias=False,
            shard=shard,
            dtype=dtype,
            device=device,
        )

    def joined(
        self, rows: Rows, turns: Turns, at: Tensor | None = None
    ) -> tuple[Tensor, JoinedHeads]:
        """Rows [r, width] with what comes to them, and their heads. They are all rows of a call or
        those `at` i64[r]."""
        x, normed = added_normed(*rows, row_norm(self.attention_norm))
        return x, JoinedHeads(
            qkv=self.qkv(normed),
            at=at,
            count=self.head_count,
            turns=turns,
            halves=True,
            scale=self.head_dim**-0.5,
            norms=(self.q_norm.weight, self.k_norm.weight),
            eps=self.q_norm.eps,
        )

    def finish(self, x: Tensor, attended: Tensor) -> Rows:
        """Rows [R, width] behind the layer, of those before it and `attended` [R, Hq D]."""
        x, normed = added_normed(x, self.out(attended), row_norm(self.mlp_norm))
        return x, self.mlp(normed)


def whole(rows: Rows) -> Tensor:
    """Rows [R, width] and what comes to them, added up."""
    x, more = rows
    return x if more is None else x + more


_PARTS: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("input_layernorm",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "q_norm": ("self_attn.q_norm",),
    "k_norm": ("self_attn.k_norm",),
    "out": ("self_attn.o_proj",),
    "mlp_norm": ("post_attention_layernorm",),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down": ("mlp.down_proj",),
}


def expert_names(part: str, *, draws: bool) -> tuple[str, ...]:
    """The checkpoint's names of a part of a layer; the expert that `draws` has a mark in its."""
    names = _PARTS[part]
    if not draws:
        return names
    if part.startswith("mlp."):
        return tuple(name.replace("mlp.", "mlp_moe_gen.", 1) for name in names)
    return tuple(f"{name}_moe_gen" for name in names)

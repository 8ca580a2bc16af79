"""The decoder that Thinker, Talker and code predictor share: attention with normed queries and
keys, and behind it one feed-forward block or a mixture of experts.

Rows [R, width] and their rotary angles → rows. Queries and keys of each head are normed before they
are turned. Weights are named as in the checkpoint's `layers.N.…`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.experts import Experts, Router
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.mlp import GatedMLP
from mstarc_runtime.layers.norm import RMSNorm
from mstarc_runtime.layers.parallel import ColumnLinear, RowLinear
from mstarc_runtime.layers.rope import AxesRope, Rope, RopeSettings
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.layers.streamed_layers import Norms, StreamedLayers

if TYPE_CHECKING:
    from mstarc_runtime.kernels.mixture import ExpertWeights
    from mstarc_runtime.kernels.normed_stack import GatedWeights, NormedWeights

Config = Mapping[str, Any]
# Positions behind those of a prompt: the longest answer, or speech, that may be asked for.
_ANSWER = 8192 + 64
Angles = tuple[Tensor, Tensor]
Names = str | tuple[str, ...]


def rope_of(config: Config) -> AxesRope:
    """The rotary positions of a text config, three axes to a position, and room for an answer."""
    found = RopeSettings.from_config(config, head_dim=int(required(config, "head_dim")))
    settings = replace(found, positions=found.positions + _ANSWER)
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    time, height, width = given.get("mrope_section", (24, 20, 20))
    return AxesRope(settings, (time, height, width))


class Attention(nn.Module):
    """Grouped-query attention with a norm on each head's queries and keys."""

    def __init__(
        self,
        config: Config,
        rope: Rope,
        *,
        shard: Shard,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        eps = float(config.get("rms_norm_eps", 1e-6))
        require_value(config, "attention_bias", False, False)
        heads = int(required(config, "num_attention_heads"))
        kv_heads = int(required(config, "num_key_value_heads"))
        size = self.head_dim = rope.settings.head_dim
        self.rope = rope
        held, held_kv = shard.heads(heads, "attention heads"), shard.kv_heads(kv_heads)
        self.heads, self.kv_heads = held[1] - held[0], held_kv[1] - held_kv[0]
        query = (heads * size, (held[0] * size, held[1] * size))
        key = (kv_heads * size, (held_kv[0] * size, held_kv[1] * size))
        self.qkv = ColumnLinear(width, [query, key, key], dtype=dtype, device=device)
        self.q_norm = RMSNorm(size, eps=eps, dtype=dtype, device=device)
        self.k_norm = RMSNorm(size, eps=eps, dtype=dtype, device=device)
        self.out = RowLinear(
            query[0], width, held=query[1], shard=shard, dtype=dtype, device=device
        )

    def forward(self, ctx: KVContext, layer: int, x: Tensor, angles: Angles) -> Tensor:
        heads = self.qkv(x).view(x.shape[0], -1, self.head_dim)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q = self.rope.turn(self.q_norm(q), angles)
        k = self.rope.turn(self.k_norm(k), angles)
        return self.out(ctx.attend(layer, q, k, v).flatten(1))


class Mixture(nn.Module):
    """Experts behind a router, and beside them a block that every row takes, if there is one."""

    def __init__(
        self, config: Config, *, shard: Shard, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        inner = int(required(config, "moe_intermediate_size"))
        shared = int(config.get("shared_expert_intermediate_size") or 0)
        self.experts_count = int(config.get("num_experts") or required(config, "num_local_experts"))
        self.router = Router(
            width,
            experts=self.experts_count,
            chosen=int(required(config, "num_experts_per_tok")),
            normed=bool(config.get("norm_topk_prob", True)),
            dtype=dtype,
            device=device,
        )
        self.experts = Experts(
            width, inner, experts=self.experts_count, shard=shard, dtype=dtype, device=device
        )
        self.shared: GatedMLP | None = None
        self.shared_gate: Linear | None = None
        if shared:
            self.shared = GatedMLP(
                width, shared, bias=False, shard=shard, dtype=dtype, device=device
            )
            self.shared_gate = Linear(width, 1, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        shares, experts = self.router(x)
        made = self.experts(x, shares, experts)
        if self.shared is None or self.shared_gate is None:
            return made
        return made + functional.sigmoid(self.shared_gate(x)) * self.shared(x)

    def expert_weights(self) -> "ExpertWeights":
        """What the kernels of a step take."""
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.mixture import ExpertWeights

        shared, gate = self.shared, self.shared_gate
        return ExpertWeights(
            router=self.router.weight,
            gate_up=self.experts.gate_up,
            down=self.experts.down,
            chosen=self.router.chosen,
            normed=self.router.normed,
            shared_gate=None if gate is None else gate.weight,
            shared_gate_up=None if shared is None else shared.gate_up.weight,
            shared_down=None if shared is None else shared.down.weight,
        )


class Block(nn.Module):
    """One layer: attention and feed-forward, each after a norm and beside a residual."""

    def __init__(
        self,
        config: Config,
        rope: Rope,
        *,
        is_mixture: bool,
        shard: Shard = WHOLE,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        width = int(required(config, "hidden_size"))
        eps = float(config.get("rms_norm_eps", 1e-6))
        self.attention_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.attention = Attention(config, rope, shard=shard, dtype=dtype, device=device)
        self.mlp_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.mlp: Mixture | GatedMLP
        if is_mixture:
            self.mlp = Mixture(config, shard=shard, dtype=dtype, device=device)
        else:
            inner = int(required(config, "intermediate_size"))
            self.mlp = GatedMLP(width, inner, bias=False, shard=shard, dtype=dtype, device=device)

    def forward(self, ctx: KVContext, layer: int, x: Tensor, angles: Angles) -> Tensor:
        x = x + self.attention.forward(ctx, layer, self.attention_norm(x), angles)
        return x + self.mlp.forward(self.mlp_norm(x))


class Stack(nn.Module):
    """All layers and the norm behind them."""

    def __init__(
        self,
        config: Config,
        rope: Rope,
        *,
        is_mixture: bool,
        shard: Shard = WHOLE,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        require_value(config, "hidden_act", "silu", "silu")
        if is_mixture:
            require_value(config, "decoder_sparse_step", 1, 1)
            require_value(config, "mlp_only_layers", [], [])
        self.rope = rope
        self._shard = shard
        self.layers = nn.ModuleList(
            Block(config, rope, is_mixture=is_mixture, shard=shard, dtype=dtype, device=device)
            for _ in range(int(required(config, "num_hidden_layers")))
        )
        self.norm = RMSNorm(
            int(required(config, "hidden_size")),
            eps=float(config.get("rms_norm_eps", 1e-6)),
            dtype=dtype,
            device=device,
        )

    def forward(self, ctx: KVContext, x: Tensor, angles: Angles) -> Tensor:
        """Rows [R, width] → normed rows of the last layer."""
        for layer in range(len(self.layers)):
            x = self.layer(ctx, layer, x, angles)
        return self.norm(x)

    def layer(self, ctx: KVContext, number: int, x: Tensor, angles: Angles) -> Tensor:
        """What one layer makes of `x`."""
        block = self.layers[number]
        assert isinstance(block, Block)
        return block.forward(ctx, number, x, angles)

    def streamed(self, head: Callable[[], Tensor]) -> StreamedLayers:
        """The layers as kernels of our own for steps; `head` is multiplied with what they make."""
        block = self.layers[0]
        assert isinstance(block, Block)
        return StreamedLayers(
            self._normed_weights,
            self.rope,
            heads=block.attention.heads,
            head=head,
            shard=self._shard,
        )

    def _normed_weights(self) -> "tuple[NormedWeights, Norms] | None":
        """The weights for the kernels of a step, and the norms of heads; None for a shard that is
        alone, as tests and calibration make it."""
        if self._shard.count > 1 and self._shard.group is None:
            return None
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.normed_stack import NormedLayer, NormedWeights

        blocks = [block for block in self.layers if isinstance(block, Block)]
        layers = [
            NormedLayer(
                attention_norm=block.attention_norm.weight,
                qkv=block.attention.qkv.weight,
                out=block.attention.out.weight,
                mlp_norm=block.mlp_norm.weight,
                mlp=_mlp_weights(block.mlp),
            )
            for block in blocks
        ]
        norms = [(block.attention.q_norm.weight, block.attention.k_norm.weight) for block in blocks]
        return NormedWeights(layers=layers, norm=self.norm.weight, eps=self.norm.eps), norms

    def weight_map(self, prefix: str) -> dict[str, Names]:
        """Own parameter → tensors below `prefix` of the checkpoint."""
        found: dict[str, Names] = {}
        for name, _ in self.named_parameters():
            found[name] = self._names(name, prefix)
        return found

    def _names(self, name: str, prefix: str) -> Names:
        if name == "norm.weight":
            return f"{prefix}norm.weight"
        _, layer, inner = name.split(".", 2)
        below = f"{prefix}layers.{layer}."
        if inner in ("mlp.experts.gate_up", "mlp.experts.down"):
            parts = ("gate_proj", "up_proj") if inner.endswith("gate_up") else ("down_proj",)
            block = self.layers[int(layer)]
            assert isinstance(block, Block) and isinstance(block.mlp, Mixture)
            return tuple(
                f"{below}mlp.experts.{expert}.{part}.weight"
                for expert in range(block.mlp.experts_count)
                for part in parts
            )
        names = tuple(f"{below}{part}.weight" for part in _PARTS[inner.removesuffix(".weight")])
        return names[0] if len(names) == 1 else names


def _mlp_weights(mlp: Mixture | GatedMLP) -> "GatedWeights | ExpertWeights":
    if isinstance(mlp, Mixture):
        return mlp.expert_weights()
    # Here, because the kernels' compiler comes with torch for GPUs only.
    from mstarc_runtime.kernels.normed_stack import GatedWeights

    return GatedWeights(gate_up=mlp.gate_up.weight, down=mlp.down.weight)


_PARTS: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("input_layernorm",),
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.q_norm": ("self_attn.q_norm",),
    "attention.k_norm": ("self_attn.k_norm",),
    "attention.out": ("self_attn.o_proj",),
    "mlp_norm": ("post_attention_layernorm",),
    "mlp.router": ("mlp.gate",),
    "mlp.shared.gate_up": ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"),
    "mlp.shared.down": ("mlp.shared_expert.down_proj",),
    "mlp.shared_gate": ("mlp.shared_expert_gate",),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down": ("mlp.down_proj",),
}

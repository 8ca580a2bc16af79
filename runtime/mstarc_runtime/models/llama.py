"""Llama-like decoders: Llama 2 and 3, SmolLM2, and whoever else says LlamaForCausalLM.

Token ids in, one token a request out. `config` has the keys of a checkpoint's config.json;
weights keep the checkpoint's names through `weight_map`, query, key and value projections being
one matrix here, and gate and up projections another.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.joined import attend_joined
from mstarc_runtime.layers.mlp import GatedMLP
from mstarc_runtime.layers.norm import RMSNorm
from mstarc_runtime.layers.parallel import (
    ColumnLinear,
    HeadLinear,
    RowLinear,
    ShardedEmbedding,
)
from mstarc_runtime.layers.rope import Rope, RopeSettings
from mstarc_runtime.layers.rowwise import added_normed, row_norm
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.layers.streamed_layers import StreamedLayers
from mstarc_runtime.layers.streamed_step import StreamedStep

if TYPE_CHECKING:
    from mstarc_runtime.kernels.decode_stack import StackWeights
    from mstarc_runtime.kernels.normed_stack import NormedWeights

Turns = tuple[Tensor, Tensor]


class Attention(nn.Module):
    """Grouped-query self-attention with rotary positions."""

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
        bias = bool(config.get("attention_bias", False))
        heads = int(required(config, "num_attention_heads"))
        kv_heads = int(config.get("num_key_value_heads") or heads)
        size = self.head_dim = rope.settings.head_dim
        held, held_kv = shard.heads(heads, "attention heads"), shard.kv_heads(kv_heads)
        self.heads, self.kv_heads = held[1] - held[0], held_kv[1] - held_kv[0]
        query = (heads * size, (held[0] * size, held[1] * size))
        key = (kv_heads * size, (held_kv[0] * size, held_kv[1] * size))
        self.qkv = ColumnLinear(width, [query, key, key], bias=bias, dtype=dtype, device=device)
        self.out = RowLinear(
            query[0], width, held=query[1], shard=shard, bias=bias, dtype=dtype, device=device
        )

    def forward(self, ctx: KVContext, layer: int, x: Tensor, turns: Turns) -> Tensor:
        joined = JoinedHeads(
            qkv=self.qkv(x),
            count=self.heads,
            turns=turns,
            halves=True,
            scale=self.head_dim**-0.5,
        )
        return self.out(attend_joined(ctx, layer, (joined,)))


class Block(nn.Module):
    """One layer: attention and feed-forward, each after a norm and beside a residual."""

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
        self.attention_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.attention = Attention(config, rope, shard=shard, dtype=dtype, device=device)
        self.mlp_norm = RMSNorm(width, eps=eps, dtype=dtype, device=device)
        self.mlp = GatedMLP(
            width,
            int(required(config, "intermediate_size")),
            bias=bool(config.get("mlp_bias", False)),
            shard=shard,
            dtype=dtype,
            device=device,
        )

    def forward(
        self, ctx: KVContext, layer: int, x: Tensor, more: Tensor | None, turns: Turns
    ) -> tuple[Tensor, Tensor]:
        """Rows [R, D] and what comes to them, of such from the layer before."""
        x, normed = added_normed(x, more, row_norm(self.attention_norm))
        attended = self.attention.forward(ctx, layer, normed, turns)
        x, normed = added_normed(x, attended, row_norm(self.mlp_norm))
        return x, self.mlp(normed)


class Decoder(nn.Module):
    """A decoder of one node, or one part of it. `vocab_size` is the width of its logits."""

    by_shape = frozenset({"prefill"})

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> None:
        super().__init__()
        require_value(config, "hidden_act", "silu", "silu")
        width = int(required(config, "hidden_size"))
        heads = int(required(config, "num_attention_heads"))
        self.vocab_size = int(required(config, "vocab_size"))
        self.rope = Rope(
            RopeSettings.from_config(config, head_dim=int(config.get("head_dim") or width // heads))
        )
        self.embedding = ShardedEmbedding(
            self.vocab_size, width, shard=shard, dtype=dtype, device=device
        )
        self.layers = nn.ModuleList(
            Block(config, self.rope, shard=shard, dtype=dtype, device=device)
            for _ in range(int(required(config, "num_hidden_layers")))
        )
        self.norm = RMSNorm(
            width, eps=float(config.get("rms_norm_eps", 1e-6)), dtype=dtype, device=device
        )
        self.head: HeadLinear | None = None
        if config.get("tie_word_embeddings", False):
            self.embedding.use_as_head()
        else:
            self.head = HeadLinear(width, self.vocab_size, shard=shard, dtype=dtype, device=device)
        self._streamed = StreamedStep(self._stack_weights, self.rope, heads=heads)
        self._streamed_part = StreamedLayers(
            self._part_weights,
            self.rope,
            heads=shard.part(heads)[1] - shard.part(heads)[0],
            head=self._head_weight,
            shard=shard,
        )
        self._kept: slice | None = None
        is_plain = not (config.get("attention_bias", False) or config.get("mlp_bias", False))
        self._is_whole = shard.count == 1 and is_plain
        self._is_part = shard.group is not None and is_plain

    @classmethod
    def build(
        cls,
        config: Mapping[str, Any],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shard: Shard = WHOLE,
    ) -> Self:
        """A decoder without weights. Fails with MS9109 or MS9012 where it can't be served."""
        return cls(config, dtype=dtype, device=device, shard=shard)

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def prefill(self, ctx: KVContext, ids: Tensor) -> Tensor:
        """The token i64[B] that follows `ids` i64[R], R rows of B requests."""
        ctx.observe(ids)
        return ctx.sample(self._logits(ctx, ids, ctx.last_rows))

    def step(self, ctx: KVContext, token: Tensor) -> Tensor:
        """The token i64[B] that follows `token` i64[B]."""
        return ctx.sample(self.step_logits(ctx, token))

    def step_logits(self, ctx: KVContext, token: Tensor) -> Tensor:
        """[B, V] behind `token` i64[B], valid until the next step."""
        logits = self._streamed.logits(ctx, token)
        if logits is not None:
            return logits
        part = self._streamed_part.begin(ctx)
        if part is None:
            return self._logits(ctx, token, None)
        part.take(self.embedding(token))
        part.run()
        head = self.embedding if self.head is None else self.head
        return head.gathered(part.logits(self._head_weight()))

    def keep_rows(self, ids: range) -> bool:
        """Computes logits of these ids alone from now on; False for a part of a decoder, or where
        the output matrix is packed."""
        head = self._head_weight()
        if not self._is_whole or head.shape[0] != self.vocab_size:
            return False
        self._kept = slice(ids.start, ids.stop)
        return True

    def _head_weight(self) -> Tensor:
        weight = self.embedding.weight if self.head is None else self.head.weight
        return weight if self._kept is None else weight[self._kept]

    def _stack_weights(self) -> "StackWeights | None":
        """The weights for the kernels of a step; None for a part of a decoder, or with biases."""
        if not self._is_whole:
            return None
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.decode_stack import LayerWeights, StackWeights

        blocks = [block for block in self.layers if isinstance(block, Block)]
        return StackWeights(
            embedding=self.embedding.weight,
            layers=[
                LayerWeights(
                    attention_norm=block.attention_norm.weight,
                    qkv=block.attention.qkv.weight,
                    out=block.attention.out.weight,
                    mlp_norm=block.mlp_norm.weight,
                    gate_up=block.mlp.gate_up.weight,
                    down=block.mlp.down.weight,
                )
                for block in blocks
            ],
            norm=self.norm.weight,
            head=self._head_weight(),
            eps=self.norm.eps,
        )

    def _part_weights(self) -> "tuple[NormedWeights, None] | None":
        """A part's weights for the kernels of a step; None for a whole decoder, or with biases."""
        if not self._is_part:
            return None
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.normed_stack import GatedWeights, NormedLayer, NormedWeights

        blocks = [block for block in self.layers if isinstance(block, Block)]
        layers = [
            NormedLayer(
                attention_norm=block.attention_norm.weight,
                qkv=block.attention.qkv.weight,
                out=block.attention.out.weight,
                mlp_norm=block.mlp_norm.weight,
                mlp=GatedWeights(gate_up=block.mlp.gate_up.weight, down=block.mlp.down.weight),
            )
            for block in blocks
        ]
        return NormedWeights(layers=layers, norm=self.norm.weight, eps=self.norm.eps), None

    def _logits(self, ctx: KVContext, ids: Tensor, rows: Tensor | None) -> Tensor:
        """[B, V] behind `rows` of `ids`, or behind each."""
        x, more = self.embedding(ids), None
        turns = self.rope.turns(ctx.positions)
        for layer, block in enumerate(self.layers):
            assert isinstance(block, Block)
            x, more = block.forward(ctx, layer, x, more, turns)
        if rows is not None:
            x = x.index_select(0, rows)
            more = None if more is None else more.index_select(0, rows)
        _, normed = added_normed(x, more, row_norm(self.norm))
        if self._kept is not None:
            return functional.linear(normed, self._head_weight())
        if self.head is None:
            return self.embedding.project(normed)
        return self.head(normed)


_PARTS: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("input_layernorm",),
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.out": ("self_attn.o_proj",),
    "mlp_norm": ("post_attention_layernorm",),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down": ("mlp.down_proj",),
}
_WHOLE: Mapping[str, str] = {
    "embedding": "model.embed_tokens",
    "norm": "model.norm",
    "head": "lm_head",
}


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    part, kind = name.rsplit(".", 1)
    if part in _WHOLE:
        return f"{_WHOLE[part]}.{kind}"
    _, layer, inner = part.split(".", 2)
    names = tuple(f"model.layers.{layer}.{piece}.{kind}" for piece in _PARTS[inner])
    return names[0] if len(names) == 1 else names

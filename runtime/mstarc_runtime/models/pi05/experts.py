"""Two experts with one cache: one reads images and an order, one moves noise towards actions.

`read` writes the prefix, whose rows see all of one another. `denoise` gives the velocity of
actions, whose rows see the prefix and one another. They leave nothing behind: each step has the
same prefix.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import KVContext, OpContext
from mstarc_runtime.layers import embedding
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.rope import Rope, RopeSettings
from mstarc_runtime.layers.rowwise import added_normed
from mstarc_runtime.models.pi05.gemma import (
    Flow,
    Layer,
    TimedLayer,
    TimedNorm,
    TimedNorms,
    layer_names,
)
from mstarc_runtime.models.pi05.sizes import expert_sizes, text_sizes
from mstarc_runtime.models.pi05.streamed import StreamedLayers
from mstarc_runtime.models.pi05.times import Times

_THETA = 10000.0
_MOST_ROWS = 8192


class Embedding(nn.Module):
    """Ids as rows: a table, times the root of its width."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        sizes = text_sizes(config)
        self._width = int(required(sizes, "hidden_size"))
        self.table = embedding.Embedding(
            int(required(sizes, "vocab_size")), self._width, dtype=dtype, device=device
        )

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """Without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, str]:
        return {"table.weight": "lm_head.weight"}

    def embed(self, ctx: OpContext, ids: Tensor) -> Tensor:
        """Rows [B, T, D] of `ids` i64[B, T]."""
        return self.table(ids) * math.sqrt(self._width)


class Experts(nn.Module):
    """The node with the cache. `config`: sizes, max_action_dim, chunk_size."""

    by_shape = frozenset({"read"})

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        reads, acts = text_sizes(config), expert_sizes(config)
        self.rope = Rope(
            RopeSettings(
                head_dim=int(required(reads, "head_dim")), theta=_THETA, positions=_MOST_ROWS
            )
        )
        self.reading = nn.ModuleList(
            Layer(reads, dtype=dtype, device=device)
            for _ in range(int(required(reads, "num_hidden_layers")))
        )
        self.acting = nn.ModuleList(
            TimedLayer(acts, dtype=dtype, device=device)
            for _ in range(int(required(acts, "num_hidden_layers")))
        )
        width, numbers = int(required(acts, "hidden_size")), int(required(config, "max_action_dim"))
        self.norm = TimedNorm(width, dtype=dtype, device=device)
        norms = TimedNorms([*self._layer_norms(), self.norm])
        self.into = Linear(numbers, width, bias=True, dtype=dtype, device=device)
        self.back = Linear(width, numbers, bias=True, dtype=dtype, device=device)
        self.time_in = Linear(width, width, bias=True, dtype=dtype, device=device)
        self.time_out = Linear(width, width, bias=True, dtype=dtype, device=device)
        self._times = Times(self.time_in, self.time_out, norms)
        self._streamed = StreamedLayers(self.acting, self.into, self.back, acts)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """Without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint, several being concatenated on dim 0."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def _layer_norms(self) -> Iterator[TimedNorm]:
        for layer in self.acting:
            assert isinstance(layer, TimedLayer)
            yield from (layer.attention_norm, layer.mlp_norm)

    def read(self, ctx: KVContext, emb: Tensor) -> None:
        """Reads rows `emb` [R, D] of images and an order."""
        x = emb.to(self.into.weight.dtype)
        turns = self.rope.turns(ctx.positions)
        more: Tensor | None = None
        for number, layer in enumerate(self.reading):
            assert isinstance(layer, Layer)
            is_last = number + 1 == len(self.reading)
            x, more = layer.forward(ctx, number, x, more, turns, is_last=is_last)

    def denoise(self, ctx: KVContext, x: Tensor, t: Tensor) -> Tensor:
        """The velocity f32[B, H, A] of actions `x` f32[B, H, A] at times `t` f32[B]."""
        dtype = self.into.weight.dtype
        turns = self.rope.turns(ctx.positions)
        times = self._times.at(t)
        velocity = self._streamed.velocity(ctx, x, times, turns)
        if velocity is not None:
            return velocity
        flow = Flow(x=self.into(x.to(dtype)).flatten(0, 1))
        for number, layer in enumerate(self.acting):
            assert isinstance(layer, TimedLayer)
            own = (times[2 * number], times[2 * number + 1])
            flow = layer.forward(ctx, number, flow, turns, own)
        _, normed = added_normed(flow.x, flow.more, times[-1].rows, gate=flow.gate)
        return self.back(normed).view(x.shape).float()


_READING = "paligemma_with_expert.paligemma.model.language_model.layers"
_ACTING = "paligemma_with_expert.gemma_expert.model"
_WHOLE: Mapping[str, str] = {
    "norm.dense": f"{_ACTING}.norm.dense",
    "into": "action_in_proj",
    "back": "action_out_proj",
    "time_in": "time_mlp_in",
    "time_out": "time_mlp_out",
}


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    part, _, kind = name.rpartition(".")
    if part in _WHOLE:
        return f"{_WHOLE[part]}.{kind}"
    whose, number, inner = part.split(".", 2)
    layers = _READING if whose == "reading" else f"{_ACTING}.layers"
    return layer_names(inner, kind, f"{layers}.{number}")

"""The encoder: a clip becomes a row of features for each tubelet.

A tubelet is `tubelet_size` frames deep and a patch wide and high; tubelets are numbered frame by
frame, and row by row.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.rowwise import added_normed
from mstarc_runtime.models.vjepa2.blocks import Block, block_names, places, row_norm, turns


class Encoder(nn.Module):
    """The node. `config`: hidden_size, num_hidden_layers, patch_size, … of config.json."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        require_value(config, "hidden_act", "gelu", "gelu")
        width = int(required(config, "hidden_size"))
        self._patch = int(required(config, "patch_size"))
        self.depth = int(required(config, "tubelet_size"))
        self._side = int(required(config, "crop_size")) // self._patch
        heads = int(required(config, "num_attention_heads"))
        self._head_dim = width // heads
        eps = float(config.get("layer_norm_eps", 1e-6))
        tubelet = (int(config.get("in_chans", 3)), self.depth, self._patch, self._patch)
        self.patches = nn.Parameter(
            torch.empty((width, *tubelet), dtype=dtype, device=device), requires_grad=False
        )
        self.patch_bias = nn.Parameter(
            torch.empty(width, dtype=dtype, device=device), requires_grad=False
        )
        self.layer = nn.ModuleList(
            Block(
                width,
                heads,
                int(width * float(config.get("mlp_ratio", 4.0))),
                bias=bool(config.get("qkv_bias", True)),
                eps=eps,
                dtype=dtype,
                device=device,
            )
            for _ in range(int(required(config, "num_hidden_layers")))
        )
        self.layernorm = nn.LayerNorm(width, eps=eps, dtype=dtype, device=device)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """An encoder without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        """Own parameter → tensors of the checkpoint below `encoder.`."""
        return {name: _checkpoint_names(name) for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, px: Tensor) -> Tensor:
        """Features f32[B, F / depth * side * side, D] of clips `px` f32[B, F, 3, H, W]."""
        # [B, frames, deep, colours, rows, high, columns, wide] → a row of numbers a tubelet.
        tubelets = (
            px.unflatten(4, (-1, self._patch))
            .unflatten(3, (-1, self._patch))
            .unflatten(1, (-1, self.depth))
            .permute(0, 1, 4, 6, 3, 2, 5, 7)
        )
        count = tubelets.shape[1] * tubelets.shape[2] * tubelets.shape[3]
        rows = tubelets.reshape(px.shape[0], count, -1).to(self.patches.dtype)
        x = functional.linear(rows, self.patches.flatten(1), self.patch_bias)
        by = turns(places(torch.arange(count, device=px.device), self._side), self._head_dim)
        x, more = x.flatten(0, 1), None
        for block in self.layer:
            assert isinstance(block, Block)
            x, more = block.pass_rows(x, more, by, len(rows))
        _, normed = added_normed(x, more, row_norm(self.layernorm))
        features: Tensor = normed.unflatten(0, (len(rows), count)).float()
        return features


def _checkpoint_names(name: str) -> str | tuple[str, ...]:
    if name == "patches":
        return "embeddings.patch_embeddings.proj.weight"
    if name == "patch_bias":
        return "embeddings.patch_embeddings.proj.bias"
    return block_names(name) if name.startswith("layer.") else name

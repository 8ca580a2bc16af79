"""What rows of images are made of: latents, the time of a drawing, and places on a plane.

A *place* numbers the cells of the largest plane that the model knows, row by row: row * side +
column. An image takes the upper left part of it.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.embedding import Embedding
from mstarc_runtime.layers.linear import Linear

# Longest of the waves that a time is written in, in multiples of 2 pi.
_LONGEST_WAVE = 10000.0
_WAVES = 128

# What the public code sets by itself, where a checkpoint's config.json leaves it out.
_PUBLIC: Mapping[str, Any] = {
    "latent_patch_size": 2,
    "max_latent_size": 64,
    "vae_config": {"z_channels": 16, "downsample": 8},
    "vit_max_num_patch_per_side": 70,
}

LATENT_NAMES: Mapping[str, str] = {
    "into.weight": "vae2llm.weight",
    "into.bias": "vae2llm.bias",
    "time.first.weight": "time_embedder.mlp.0.weight",
    "time.first.bias": "time_embedder.mlp.0.bias",
    "time.second.weight": "time_embedder.mlp.2.weight",
    "time.second.bias": "time_embedder.mlp.2.bias",
    "places.weight": "latent_pos_embed.pos_embed",
}


class TimeEmbedding(nn.Module):
    """A time t in 0 .. 1 as a row: cosines and sines of 128 frequencies, then two layers."""

    def __init__(self, width: int, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.first = Linear(2 * _WAVES, width, bias=True, dtype=dtype, device=device)
        self.second = Linear(width, width, bias=True, dtype=dtype, device=device)

    def forward(self, t: Tensor) -> Tensor:
        """Rows [B, width] of `t` f32[B]."""
        exponents = torch.arange(_WAVES, dtype=torch.float32, device=t.device) / _WAVES
        angles = t.float()[:, None] * torch.exp(-math.log(_LONGEST_WAVE) * exponents)
        waves = torch.cat((angles.cos(), angles.sin()), dim=-1)
        hidden = functional.silu(self.first(waves.to(self.first.weight.dtype)))
        return self.second(hidden)


class LatentEmbedding(nn.Module):
    """Cells of a drawing as rows of the decoder. `side`: cells along the largest plane's edge."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        width = int(required(required(config, "llm_config"), "hidden_size"))
        self.side = int(setting(config, "max_latent_size"))
        self.depth = latent_depth(config)
        self.into = Linear(self.depth, width, bias=True, dtype=dtype, device=device)
        self.time = TimeEmbedding(width, dtype=dtype, device=device)
        self.places = Embedding(self.side**2, width, dtype=dtype, device=device)

    def forward(self, latents: Tensor, t: Tensor, owners: Tensor, places: Tensor) -> Tensor:
        """Rows [R, width] of `latents` [R, depth] at `places` i64[R].

        `t` f32[B] are the requests' times, `owners` i64[R] says whose a row is.
        """
        rows = self.into(latents.to(self.into.weight.dtype))
        return rows + self.time.forward(t).index_select(0, owners) + self.places(places)


def setting(config: Mapping[str, Any], key: str) -> Any:
    """A setting of config.json, or the public code's own."""
    return config.get(key, _PUBLIC[key])


def latent_depth(config: Mapping[str, Any]) -> int:
    """Numbers in a cell: patch * patch latents of z channels."""
    return int(setting(config, "latent_patch_size")) ** 2 * latent_channels(config)


def latent_channels(config: Mapping[str, Any]) -> int:
    return int(setting(config, "vae_config")["z_channels"])


def plane(rows: int, columns: int, side: int, device: torch.device) -> Tensor:
    """Places i64[rows * columns] of an image, row by row."""
    down = torch.arange(rows, device=device)[:, None] * side
    return (down + torch.arange(columns, device=device)).flatten()

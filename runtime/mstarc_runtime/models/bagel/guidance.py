"""Guidance: where a drawing goes when what is asked for counts for more than it would by itself.

`combine` compares the velocity `v` with what it is without the last text, and without the images,
and goes further in the direction in which they differ. A velocity that grew is brought back to the
length of `v`: over the whole drawing (global), for each cell (channel), or for each cell before
the images are looked at (text_channel). Everything is a request's own: scales, way and pictures.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.counter_hash import normal
from mstarc_runtime.models.bagel.embeddings import latent_depth
from mstarc_runtime.plan_api import Maybe

_BEGINNING = 0
_LEAST_LENGTH = 1e-8


class Guidance(nn.Module):
    """The node: no weights. `config`: latent_patch_size, vae_config.z_channels."""

    def __init__(self, depth: int, device: torch.device) -> None:
        super().__init__()
        self._depth = depth
        self._device = device

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        return cls(latent_depth(config), device)

    def weight_map(self) -> Mapping[str, str]:
        return {}

    def noise(self, ctx: OpContext, seed: Tensor, cells: Tensor) -> Tensor:
        """Where drawings begin: f32[B, cells + 2, depth] of mean 0 and variance 1.

        `seed` and `cells` i64[B], cells being the same for all B. Rows of marks are 0.
        """
        count = int(cells[0])
        numbers = torch.arange(count * self._depth, device=seed.device)
        drawn = normal(seed[:, None], _BEGINNING, numbers).view(-1, count, self._depth)
        return nn.functional.pad(drawn, (0, 0, 1, 1))

    def combine(
        self,
        ctx: OpContext,
        v: Tensor,
        no_text: Tensor,
        no_image: Maybe | None,
        text_scale: Tensor,
        image_scale: Tensor,
        least: Tensor,
        by_channel: Tensor,
        by_text: Tensor,
    ) -> Tensor:
        """The guided velocity, like `v` [B, R, depth], whose rows of marks are 0.

        Scales and `least` (how short a velocity may be made, as a part of its length) are f32[B];
        `by_channel` bool[B] keeps the length of each cell's, `by_text` bool[B] does it before the
        images are looked at.
        """
        here, without = v.float(), no_text.float()
        textual = without + _each(text_scale) * (here - without)
        # Both ways are computed for all, and each request takes its own.
        early = textual * _shrunk(_lengths(here), _lengths(textual), least)
        guided = torch.where(_each(by_text), early, textual)
        if no_image is not None:
            other = no_image.value.float()
            imaged = other + _each(image_scale) * (guided - other)
            guided = torch.where(_each(no_image.there), imaged, guided)
        late = torch.where(
            _each(by_channel),
            _shrunk(_lengths(here), _lengths(guided), least),
            _shrunk(_length(here), _length(guided), least),
        )
        return torch.where(_each(by_text), guided, guided * late).to(v.dtype)

    def follow(self, ctx: OpContext, x: Tensor, v: Tensor, t: Tensor, after: Tensor) -> Tensor:
        """Drawings `x` f32[B, R, depth] a step along `v`, from times `t` to `after` f32[B]."""
        return x - v.float() * _each(t - after)


def _each(values: Tensor) -> Tensor:
    """[B] → [B, 1, 1]"""
    return values[:, None, None]


def _lengths(v: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return norms


def _length(v: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(v, dim=(-2, -1), keepdim=True)
    return norms


def _shrunk(wanted: Tensor, present: Tensor, least: Tensor) -> Tensor:
    """By what a velocity is multiplied: at most 1, at least `least`."""
    return torch.maximum(wanted / (present + _LEAST_LENGTH), _each(least)).clamp(max=1.0)

"""The nodes around the autoencoder: pixels → rows of the decoder, a finished drawing → pixels.

A cell of a drawing holds 2 x 2 latents, row by row, the channels of each together.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.counter_hash import normal
from mstarc_runtime.models.bagel import autoencoder
from mstarc_runtime.models.bagel.embeddings import LATENT_NAMES, LatentEmbedding, plane, setting

_ENCODER_DRAWS = 1  # a stream beside that of the noise where drawings begin


class VaeEncoder(nn.Module):
    """An image that was given, as the decoder's rows of a finished drawing."""

    weight_files = ("ae.safetensors",)

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        sizes = autoencoder.settings(config)
        self._patch = int(setting(config, "latent_patch_size"))
        self._scale, self._shift = float(sizes["scale_factor"]), float(sizes["shift_factor"])
        with torch.device(device):
            self.encoder = autoencoder.Encoder(sizes).to(dtype)
        self.latents = LatentEmbedding(config, dtype=dtype, device=device)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """An encoder without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        return {
            name: LATENT_NAMES.get(name.removeprefix("latents."), name)
            for name, _ in self.named_parameters()
        }

    def encode(self, ctx: OpContext, px: Tensor, seed: Tensor) -> Tensor:
        """Rows [B, cells + 2, D] of `px` f32[B, 3, H, W] in -1 .. 1; `seed` i64[B].

        The first and the last row are 0: there is room for the marks around an image.
        """
        cells = self.cells(px, seed)
        count, rows, columns, depth = cells.shape
        places = plane(rows, columns, self.latents.side, px.device)
        owners = torch.arange(count, device=px.device).repeat_interleave(rows * columns)
        emb = self.latents.forward(
            cells.reshape(-1, depth),
            torch.zeros(count, device=px.device),
            owners,
            places.repeat(count),
        )
        return functional.pad(emb.unflatten(0, (count, -1)), (0, 0, 1, 1))

    def cells(self, px: Tensor, seed: Tensor) -> Tensor:
        """Latents [B, h, w, depth], drawn around the means that the encoder gives."""
        wide = self.encoder(px.to(self.encoder.conv_in.weight.dtype))
        mean, log_variance = wide.float().chunk(2, dim=1)
        numbers = torch.arange(mean[0].numel(), device=px.device)
        noise = normal(seed[:, None], _ENCODER_DRAWS, numbers).view(mean.shape)
        drawn = mean + torch.exp(0.5 * log_variance) * noise
        return cells_of(self._scale * (drawn - self._shift), self._patch)


class VaeDecoder(nn.Module):
    """A finished drawing as a picture."""

    weight_files = ("ae.safetensors",)

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        sizes = autoencoder.settings(config)
        self._patch = int(setting(config, "latent_patch_size"))
        self._cell = self._patch * 2 ** (len(sizes["ch_mult"]) - 1)
        self._scale, self._shift = float(sizes["scale_factor"]), float(sizes["shift_factor"])
        with torch.device(device):
            self.decoder = autoencoder.Decoder(sizes).to(dtype)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A decoder without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        """Names below `decoder.` in the checkpoint."""
        return {name: name.removeprefix("decoder.") for name, _ in self.named_parameters()}

    def decode(self, ctx: OpContext, x: Tensor, height: Tensor, width: Tensor) -> Tensor:
        """Pictures u8[B, 3, H, W] of drawings `x` f32[B, cells + 2, depth].

        `height` and `width` i64[B] are in pixels, and the same for all B.
        """
        colours = self.pixels(x, height, width) * 0.5 + 0.5
        return (colours.clamp(0, 1) * 255).to(torch.uint8)

    def pixels(self, x: Tensor, height: Tensor, width: Tensor) -> Tensor:
        """Colours f32[B, 3, H, W], about -1 .. 1."""
        rows, columns = int(height[0]) // self._cell, int(width[0]) // self._cell
        latents = latents_of(x[:, 1:-1].unflatten(1, (rows, columns)), self._patch)
        unscaled = latents / self._scale + self._shift
        px: Tensor = self.decoder(unscaled.to(self.decoder.conv_in.weight.dtype))
        return px.float()


def cells_of(latents: Tensor, patch: int) -> Tensor:
    """Cells [B, h, w, patch * patch * z] of latents [B, z, h * patch, w * patch]."""
    parts: Tensor = latents.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))
    return parts.permute(0, 2, 4, 3, 5, 1).flatten(3)


def latents_of(cells: Tensor, patch: int) -> Tensor:
    """Latents [B, z, h * patch, w * patch] of cells [B, h, w, patch * patch * z]."""
    parts: Tensor = cells.unflatten(3, (patch, patch, -1)).permute(0, 5, 1, 3, 2, 4)
    return parts.flatten(4, 5).flatten(2, 3)

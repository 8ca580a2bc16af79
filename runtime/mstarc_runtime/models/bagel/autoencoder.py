"""The autoencoder of FLUX: pictures ↔ latents of an eighth of their side.

Convolutions in levels, two residual blocks or so each, with one attention in the middle. Module
names are those of the public checkpoint, so that its tensors need no renaming.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_GROUPS = 32
_EPS = 1e-6


def settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The public autoencoder's sizes; `vae_config` may give smaller ones."""
    public = {
        "ch": 128,
        "ch_mult": (1, 2, 4, 4),
        "num_res_blocks": 2,
        "z_channels": 16,
        "in_channels": 3,
        "out_ch": 3,
        "scale_factor": 0.3611,
        "shift_factor": 0.1159,
    }
    return public | dict(config.get("vae_config", {}))


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(_GROUPS, channels, eps=_EPS)


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.norm1 = _norm(channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.norm2 = _norm(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.nin_shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        h = self.conv2(functional.silu(self.norm2(h)))
        kept = x if self.nin_shortcut is None else self.nin_shortcut(x)
        out: Tensor = kept + h
        return out


class PixelAttention(nn.Module):
    """Every place of a picture attends to every other, with one head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _norm(channels)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        q, k, v = (
            part(normed).flatten(2).transpose(1, 2).unsqueeze(1)
            for part in (self.q, self.k, self.v)
        )
        attended = functional.scaled_dot_product_attention(q, k, v)
        out: Tensor = x + self.proj_out(attended.squeeze(1).transpose(1, 2).reshape(x.shape))
        return out


class Middle(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block_1 = ResidualBlock(channels, channels)
        self.attn_1 = PixelAttention(channels)
        self.block_2 = ResidualBlock(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block_2(self.attn_1(self.block_1(x)))
        return out


class Resize(nn.Module):
    """Half or twice the side."""

    def __init__(self, channels: int, *, halves: bool) -> None:
        super().__init__()
        self._halves = halves
        self.conv = nn.Conv2d(
            channels, channels, 3, stride=2 if halves else 1, padding=0 if halves else 1
        )

    def forward(self, x: Tensor) -> Tensor:
        if self._halves:
            # One column on the right and one row below, none on the other sides.
            x = functional.pad(x, (0, 1, 0, 1))
        else:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        out: Tensor = self.conv(x)
        return out


class Level(nn.Module):
    """Residual blocks at one side, and the way to the next."""

    def __init__(self, channels: int, out: int, count: int, resize: tuple[str, bool] | None):
        super().__init__()
        self.block = nn.ModuleList(
            ResidualBlock(channels if number == 0 else out, out) for number in range(count)
        )
        self._resize = None if resize is None else resize[0]
        if resize is not None:
            self.add_module(resize[0], Resize(out, halves=resize[1]))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.block:
            x = block(x)
        return x if self._resize is None else self.get_submodule(self._resize)(x)


class Encoder(nn.Module):
    """Pictures f32[B, 3, H, W] in -1 .. 1 → means and log-variances [B, 2 z, H / 8, W / 8]."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        super().__init__()
        channels = _channels(sizes)
        last = len(channels) - 1
        self.conv_in = nn.Conv2d(int(sizes["in_channels"]), int(sizes["ch"]), 3, padding=1)
        self.down = nn.ModuleList(
            Level(
                channels[max(number - 1, 0)] if number else int(sizes["ch"]),
                out,
                int(sizes["num_res_blocks"]),
                None if number == last else ("downsample", True),
            )
            for number, out in enumerate(channels)
        )
        self.mid = Middle(channels[-1])
        self.norm_out = _norm(channels[-1])
        self.conv_out = nn.Conv2d(channels[-1], 2 * int(sizes["z_channels"]), 3, padding=1)

    def forward(self, px: Tensor) -> Tensor:
        h = self.conv_in(px)
        for level in self.down:
            h = level(h)
        out: Tensor = self.conv_out(functional.silu(self.norm_out(self.mid(h))))
        return out


class Decoder(nn.Module):
    """Latents [B, z, h, w] → pictures [B, 3, 8 h, 8 w], about -1 .. 1."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        super().__init__()
        channels = _channels(sizes)
        last = len(channels) - 1
        self.conv_in = nn.Conv2d(int(sizes["z_channels"]), channels[-1], 3, padding=1)
        self.mid = Middle(channels[-1])
        self.up = nn.ModuleList(
            Level(
                channels[min(number + 1, last)],
                out,
                int(sizes["num_res_blocks"]) + 1,
                None if number == 0 else ("upsample", False),
            )
            for number, out in enumerate(channels)
        )
        self.norm_out = _norm(channels[0])
        self.conv_out = nn.Conv2d(channels[0], int(sizes["out_ch"]), 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        h = self.mid(self.conv_in(z))
        for level in reversed(self.up):
            h = level(h)
        out: Tensor = self.conv_out(functional.silu(self.norm_out(h)))
        return out


def _channels(sizes: Mapping[str, Any]) -> Sequence[int]:
    return [int(sizes["ch"]) * int(factor) for factor in sizes["ch_mult"]]


def placed(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The module in `dtype`, for use and not for training."""
    return module.to(dtype).requires_grad_(False).eval()

"""The audio tower: a log-mel spectrogram → rows that the Thinker reads, 13 a second.

Convolutions over pieces of 100 frames (1 s), each by itself; then attention within windows of 8
such pieces.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.config import require_value, required

_LONGEST_PERIOD = 10000.0


def rows_of(frames: int, *, piece: int = 100) -> int:
    """How many rows the tower makes of `frames` mel frames."""
    whole, rest = divmod(frames, piece)
    return whole * _thrice_halved(piece) + _thrice_halved(rest)


def _thrice_halved(frames: int) -> int:
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames


class AudioTower(nn.Module):
    """Config: `thinker_config.audio_config`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        require_value(config, "activation_function", "gelu", "gelu")
        require_value(config, "scale_embedding", False, False)
        width = int(required(config, "d_model"))
        channels = int(required(config, "downsample_hidden_size"))
        bands = int(required(config, "num_mel_bins"))
        self.piece = 2 * int(required(config, "n_window"))
        self.window = int(required(config, "n_window_infer")) // self.piece
        self.at_once = int(config.get("conv_chunksize", 500))
        self.conv2d1 = nn.Conv2d(1, channels, 3, 2, padding=1)
        self.conv2d2 = nn.Conv2d(channels, channels, 3, 2, padding=1)
        self.conv2d3 = nn.Conv2d(channels, channels, 3, 2, padding=1)
        self.conv_out = nn.Linear(channels * _thrice_halved(bands), width, bias=False)
        self.layers = nn.ModuleList(
            _Layer(
                width,
                int(required(config, "encoder_attention_heads")),
                int(required(config, "encoder_ffn_dim")),
            )
            for _ in range(int(required(config, "encoder_layers")))
        )
        self.ln_post = nn.LayerNorm(width)
        self.proj1 = nn.Linear(width, width)
        self.proj2 = nn.Linear(width, int(required(config, "output_dim")))
        self._places: dict[torch.device, Tensor] = {}

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A tower without weights. Fails with MS9109 where `config` can't be served."""
        own = required(required(config, "thinker_config"), "audio_config")
        with torch.device(device):
            return cls(own).to(dtype).requires_grad_(False).eval()

    def weight_map(self) -> Mapping[str, str]:
        return {name: name for name, _ in self.named_parameters()}

    def encode(self, ctx: OpContext, mel: Tensor) -> Tensor:
        """`heard`."""
        return self.heard(mel)

    def heard(self, mel: Tensor) -> Tensor:
        """Rows [B, `rows_of(M)`, D] of spectrograms f32[B, mels, M]."""
        batch, _, frames = mel.shape
        pieces = -(-frames // self.piece)
        if pieces > 1:
            # A spectrogram of less than a piece is not padded: its border is where it ends.
            mel = functional.pad(mel, (0, pieces * self.piece - frames))
        parts = mel.to(self.conv_out.weight.dtype).unflatten(2, (pieces, -1)).transpose(1, 2)
        # Some pieces at a time: a recording of an hour has 3600.
        rows = torch.cat(
            [self._convolved(some) for some in parts.flatten(0, 1).split(self.at_once)]
        )
        rows = rows + self._table(rows.device)[: rows.shape[1]].to(rows.dtype)
        each = rows.shape[1]
        x = rows.view(batch, pieces * each, -1)[:, : rows_of(frames, piece=self.piece)]
        for layer in self.layers:
            x = layer(x, each * self.window)
        made: Tensor = self.proj2(functional.gelu(self.proj1(self.ln_post(x))))
        return made

    def _convolved(self, parts: Tensor) -> Tensor:
        """[N, mels, F] → [N, F / 8, D]."""
        x = functional.gelu(self.conv2d1(parts.unsqueeze(1)))
        x = functional.gelu(self.conv2d2(x))
        x = functional.gelu(self.conv2d3(x))
        rows: Tensor = self.conv_out(x.permute(0, 3, 1, 2).flatten(2))
        return rows

    def _table(self, device: torch.device) -> Tensor:
        """Sines and cosines of the rows of a piece: f32[N, D]."""
        if device not in self._places:
            width = self.conv_out.weight.shape[0]
            step = math.log(_LONGEST_PERIOD) / (width // 2 - 1)
            rates = torch.exp(-step * torch.arange(width // 2).float())
            angles = torch.arange(_thrice_halved(self.piece))[:, None] * rates[None]
            self._places[device] = torch.cat([angles.sin(), angles.cos()], dim=1).to(device)
        return self._places[device]


class _Attention(nn.Module):
    """Every row sees the rows of its window."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, window: int) -> Tensor:
        parts = [
            project(x).unflatten(-1, (self.heads, -1))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        ]
        made = torch.cat(
            [
                _attend(*(part[:, start : start + window] for part in parts))
                for start in range(0, x.shape[1], window)
            ],
            dim=1,
        )
        out: Tensor = self.out_proj(made.flatten(2))
        return out


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    made = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    )
    return made.transpose(1, 2)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.self_attn = _Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, window: int) -> Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x), window)
        made: Tensor = x + self.fc2(functional.gelu(self.fc1(self.final_layer_norm(x))))
        return made

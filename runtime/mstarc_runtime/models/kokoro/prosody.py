"""How long each phoneme lasts, and the curves of pitch and loudness over all of it.

Features [1, P, H] and a style → frames a phoneme i64[P]; features stretched to those frames →
pitch and loudness [1, 2 F] at twice the frame rate.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mstarc_runtime.models.kokoro.blocks import AdaptiveBlock

_SLOPE = 0.2


def _both_ways(inputs: int, outputs: int) -> nn.LSTM:
    return nn.LSTM(inputs, outputs // 2, batch_first=True, bidirectional=True)


class TextEncoder(nn.Module):
    """Phoneme ids i64[1, P] → features [1, H, P] of what is to be heard."""

    def __init__(self, width: int, kernel: int, depth: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cnn = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, kernel, padding=(kernel - 1) // 2), _ChannelNorm(width)
            )
            for _ in range(depth)
        )
        self.lstm = _both_ways(width, width)

    def forward(self, ids: Tensor) -> Tensor:
        signal = self.embedding(ids).transpose(1, 2)
        for layer in self.cnn:
            signal = F.leaky_relu(layer(signal), _SLOPE)
        features: Tensor = self.lstm(signal.transpose(1, 2))[0]
        return features.transpose(1, 2)


class ProsodyPredictor(nn.Module):
    """Durations and curves. `style` is the half of a voice's style that is about prosody."""

    def __init__(self, style: int, width: int, depth: int, most_frames: int) -> None:
        super().__init__()
        self.text_encoder = _StyledEncoder(style, width, depth)
        self.lstm = _both_ways(width + style, width)
        self.duration_proj = nn.Module()
        self.duration_proj.linear_layer = nn.Linear(width, most_frames)
        self.shared = _both_ways(width + style, width)
        self.F0 = _curve_blocks(width, style)
        self.N = _curve_blocks(width, style)
        self.F0_proj = nn.Conv1d(width // 2, 1, 1)
        self.N_proj = nn.Conv1d(width // 2, 1, 1)

    def durations(self, features: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Frames i64[P], at least one each, and styled features [1, P, H + S], of [1, P, H]."""
        styled = self.text_encoder(features, style)
        project = self.get_submodule("duration_proj.linear_layer")
        chances = torch.sigmoid(project(self.lstm(styled)[0]))
        frames = chances.sum(-1).round().clamp(min=1).long()
        return frames[0], styled

    def curves(self, stretched: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """Pitch in hertz and loudness, [1, 2 F] each, of features [1, F, H + S]."""
        shared = self.shared(stretched)[0].transpose(1, 2)
        pitch = loudness = shared
        for pitch_block, loudness_block in zip(self.F0, self.N, strict=True):
            pitch = pitch_block(pitch, style)
            loudness = loudness_block(loudness, style)
        return self.F0_proj(pitch).squeeze(1), self.N_proj(loudness).squeeze(1)


def _curve_blocks(width: int, style: int) -> nn.ModuleList:
    half = width // 2
    return nn.ModuleList(
        [
            AdaptiveBlock(width, width, style),
            AdaptiveBlock(width, half, style, upsample=True),
            AdaptiveBlock(half, half, style),
        ]
    )


class _StyledEncoder(nn.Module):
    """LSTMs and style-bent norms in turn; the style is put beside the features before each."""

    def __init__(self, style: int, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [_both_ways(width + style, width), _StyledNorm(style, width)]
        self.lstms = nn.ModuleList(layers)

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        beside = style.unsqueeze(1).expand(-1, features.shape[1], -1)
        features = torch.cat([features, beside], -1)
        for lstm, norm in zip(self.lstms[::2], self.lstms[1::2], strict=True):
            features = torch.cat([norm(lstm(features)[0], style), beside], -1)
        return features


class _StyledNorm(nn.Module):
    def __init__(self, style: int, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, 2 * width)

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        scale, shift = self.fc(style)[0].chunk(2)
        return F.layer_norm(features, (features.shape[-1],), 1 + scale, shift)


class _ChannelNorm(nn.Module):
    """Layer norm over the channels of [1, C, T]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, signal: Tensor) -> Tensor:
        rows = signal.transpose(1, 2)
        return F.layer_norm(rows, (rows.shape[-1],), self.gamma, self.beta).transpose(1, 2)

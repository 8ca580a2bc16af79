"""Layers that a voice's style bends, and the residual blocks made of them.

Tensors are [1, channels, time]; a style is [1, S]. Normalisation is over time, for each channel on
its own, and the style gives each channel its scale and shift.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mstarc_runtime.models.kokoro.spectral import SpectralConvolution, pays_off

_EPSILON = 1e-5
_SLOPE = 0.2


class AdaptiveNorm(nn.Module):
    """Instance norm whose scale and shift come from the style."""

    def __init__(self, style: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style, 2 * channels)

    def forward(self, signal: Tensor, style: Tensor, factor: Tensor | float = 1.0) -> Tensor:
        """The normed signal times `factor` [channels].

        One utterance at a time: for a batch of one, batch norm is instance norm, and fused.
        """
        scale, shift = self.fc(style)[0].chunk(2)
        scale, shift = (1 + scale) * factor, shift * factor
        return F.batch_norm(signal, None, None, scale, shift, training=True, eps=_EPSILON)


class AdaptiveBlock(nn.Module):
    """A residual block of two convolutions; `upsample` doubles the time."""

    def __init__(self, inputs: int, outputs: int, style: int, *, upsample: bool = False) -> None:
        super().__init__()
        self._upsample = upsample
        self.norm1 = AdaptiveNorm(style, inputs)
        self.norm2 = AdaptiveNorm(style, outputs)
        self.conv1 = nn.Conv1d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv1d(outputs, outputs, 3, padding=1)
        if inputs != outputs:
            self.conv1x1 = nn.Conv1d(inputs, outputs, 1, bias=False)
        if upsample:
            self.pool = nn.ConvTranspose1d(
                inputs, inputs, 3, stride=2, groups=inputs, padding=1, output_padding=1
            )

    def forward(self, signal: Tensor, style: Tensor) -> Tensor:
        bent = F.leaky_relu(self.norm1(signal, style), _SLOPE)
        if self._upsample:
            bent = self.pool(bent)
            signal = F.interpolate(signal, scale_factor=2, mode="nearest")
        bent = self.conv1(bent)
        bent = self.conv2(F.leaky_relu(self.norm2(bent, style), _SLOPE))
        if hasattr(self, "conv1x1"):
            signal = self.conv1x1(signal)
        summed: Tensor = bent + signal
        return summed * math.sqrt(0.5)


class SnakeBlock(nn.Module):
    """Three dilated convolutions, each with a plain one behind it, with Snake activations.

    Tensors are [1, C, 1, T] in channels-last memory, in which a CPU convolves 1.6 times faster.
    Weights must not change after the first call: what is made of them is kept.
    """

    def __init__(self, channels: int, kernel: int, dilations: list[int], style: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(_convolution(channels, kernel, d) for d in dilations)
        self.convs2 = nn.ModuleList(_convolution(channels, kernel, 1) for _ in dilations)
        self.adain1 = nn.ModuleList(AdaptiveNorm(style, channels) for _ in dilations)
        self.adain2 = nn.ModuleList(AdaptiveNorm(style, channels) for _ in dilations)
        self.alpha1 = nn.ParameterList(torch.ones(1, channels, 1) for _ in dilations)
        self.alpha2 = nn.ParameterList(torch.ones(1, channels, 1) for _ in dilations)
        self._ready: dict[nn.Module, SpectralConvolution] = {}

    def forward(self, signal: Tensor, style: Tensor) -> Tensor:
        layers = (self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2)
        for conv1, conv2, norm1, norm2, alpha1, alpha2 in zip(*layers, strict=True):
            bent = self._bend(norm1(signal, style, alpha1.flatten()), conv1, alpha1)
            bent = self._bend(norm2(bent, style, alpha2.flatten()), conv2, alpha2)
            signal = bent.add_(signal)
        return signal

    def _bend(self, scaled: Tensor, conv: nn.Module, alpha: Tensor) -> Tensor:
        """Snake x + sin²(αx) / α, then a convolution, of y = αx.

        Both α are moved where they cost nothing: into the norm before, and, as 1 / α, into the
        convolution's weight. Between them stands y + sin²(y).
        """
        waves = torch.sin(scaled)
        snake = scaled.addcmul_(waves, waves)
        assert isinstance(conv, nn.Conv1d)
        if not pays_off(conv.weight):
            return convolve(snake, conv, conv.weight / alpha)
        if conv not in self._ready:
            assert conv.bias is not None
            (dilation,) = conv.dilation
            self._ready[conv] = SpectralConvolution.of(conv.weight / alpha, conv.bias, dilation)
        return self._ready[conv](snake)


def convolve(signal: Tensor, conv: nn.Module, weight: Tensor | None = None) -> Tensor:
    """A Conv1d on [1, C, 1, T], with another weight than its own if one is given."""
    assert isinstance(conv, nn.Conv1d)
    weight = conv.weight if weight is None else weight
    assert not isinstance(conv.padding, str)
    (stride,), (padding,), (dilation,) = conv.stride, conv.padding, conv.dilation
    return F.conv2d(
        signal, weight.unsqueeze(2), conv.bias, (1, stride), (0, padding), (1, dilation)
    )


def channels_last(signal: Tensor) -> Tensor:
    """[1, C, T] → [1, C, 1, T] in channels-last memory."""
    return signal.unsqueeze(2).contiguous(memory_format=torch.channels_last)


def _convolution(channels: int, kernel: int, dilation: int) -> nn.Conv1d:
    padding = dilation * (kernel - 1) // 2
    return nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=padding)

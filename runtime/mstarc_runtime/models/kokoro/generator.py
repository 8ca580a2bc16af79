"""From frames to samples: a decoder, a harmonic source, and an inverse-STFT vocoder.

Features [1, H, F], pitch and loudness [1, 2 F], a style → samples f32[1, L], L = 600 F at the
public sizes. The source is a sum of sines at the pitch's harmonics where the voice is voiced and
noise elsewhere. The noise comes from a counter hash of a seed: the same request sounds the same
wherever and whenever it runs.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mstarc_runtime.models.kokoro.blocks import AdaptiveBlock, SnakeBlock, channels_last, convolve
from mstarc_runtime.weights.counter import normal

_HARMONICS: Final = 9
_SINE_AMPLITUDE: Final = 0.1
_VOICED_NOISE: Final = 0.003
_VOICED_HZ: Final = 10.0


class Decoder(nn.Module):
    """Features and curves → samples."""

    def __init__(self, width: int, style: int, config: Mapping[str, Any], rate: int) -> None:
        super().__init__()
        # The public model has 1024 and 64 here and no keys for them.
        inner = int(config.get("decoder_dim", 1024))
        residual = int(config.get("residual_dim", 64))
        beside = residual + 2
        last = int(config["upsample_initial_channel"])
        self.encode = AdaptiveBlock(width + 2, inner, style)
        self.decode = nn.ModuleList(
            [
                *(AdaptiveBlock(inner + beside, inner, style) for _ in range(3)),
                AdaptiveBlock(inner + beside, last, style, upsample=True),
            ]
        )
        self.F0_conv = nn.Conv1d(1, 1, 3, stride=2, padding=1)
        self.N_conv = nn.Conv1d(1, 1, 3, stride=2, padding=1)
        self.asr_res = nn.Sequential(nn.Conv1d(width, residual, 1))
        self.generator = Generator(style, config, rate)

    def forward(
        self, features: Tensor, pitch: Tensor, loudness: Tensor, style: Tensor, noise_seed: int
    ) -> Tensor:
        curves = [self.F0_conv(pitch.unsqueeze(1)), self.N_conv(loudness.unsqueeze(1))]
        signal = self.encode(torch.cat([features, *curves], 1), style)
        beside = [self.asr_res(features), *curves]
        for block in self.decode:
            signal = block(torch.cat([signal, *beside], 1), style)
        samples: Tensor = self.generator(signal, pitch, style, noise_seed)
        return samples


class Generator(nn.Module):
    """Upsampling by transposed convolutions, each stage fed the source's spectrum."""

    def __init__(self, style: int, config: Mapping[str, Any], rate: int) -> None:
        super().__init__()
        rates = [int(r) for r in config["upsample_rates"]]
        kernels = [int(k) for k in config["upsample_kernel_sizes"]]
        shapes = list(
            zip(config["resblock_kernel_sizes"], config["resblock_dilation_sizes"], strict=True)
        )
        channels = [int(config["upsample_initial_channel"]) >> i for i in range(len(rates) + 1)]
        self._blocks_a_stage = len(shapes)
        self._fft = int(config["gen_istft_n_fft"])
        self._hop = int(config["gen_istft_hop_size"])
        bins = self._fft + 2
        self.m_source = HarmonicSource(math.prod(rates) * self._hop, rate)
        self.ups = nn.ModuleList()
        self.noise_convs = nn.ModuleList()
        self.noise_res = nn.ModuleList()
        self.resblocks = nn.ModuleList()
        for i, (stride, kernel) in enumerate(zip(rates, kernels, strict=True)):
            before, after = channels[i], channels[i + 1]
            self.ups.append(
                nn.ConvTranspose1d(before, after, kernel, stride, padding=(kernel - stride) // 2)
            )
            self.resblocks.extend(SnakeBlock(after, k, d, style) for k, d in shapes)
            below = math.prod(rates[i + 1 :])
            is_last = i + 1 == len(rates)
            self.noise_convs.append(
                nn.Conv1d(bins, after, 1)
                if is_last
                else nn.Conv1d(bins, after, 2 * below, below, padding=(below + 1) // 2)
            )
            self.noise_res.append(SnakeBlock(after, 11 if is_last else 7, [1, 3, 5], style))
        self.conv_post = nn.Conv1d(channels[-1], bins, 7, padding=3)

    def forward(self, signal: Tensor, pitch: Tensor, style: Tensor, noise_seed: int) -> Tensor:
        window = torch.hann_window(self._fft, device=signal.device)
        source = channels_last(self._spectrum(self.m_source(pitch, noise_seed), window))
        source = source.to(signal.dtype)
        for i, up in enumerate(self.ups):
            excited = self.noise_res[i](convolve(source, self.noise_convs[i]), style)
            signal = up(F.leaky_relu(signal, 0.1))
            if i + 1 == len(self.ups):
                signal = F.pad(signal, (1, 0), mode="reflect")
            signal = channels_last(signal).add_(excited)
            start = i * self._blocks_a_stage
            first, *others = self.resblocks[start : start + self._blocks_a_stage]
            total = first(signal, style)
            for block in others:
                total.add_(block(signal, style))
            signal = total.div_(self._blocks_a_stage).squeeze(2)
        post = convolve(channels_last(F.leaky_relu(signal)), self.conv_post).squeeze(2).float()
        half = self._fft // 2 + 1
        polar = torch.polar(post[:, :half].exp(), post[:, half:].sin())
        return torch.istft(polar, self._fft, self._hop, window=window)

    def _spectrum(self, source: Tensor, window: Tensor) -> Tensor:
        """Magnitudes, then phases: [1, fft + 2, L / hop + 1] of the source f32[1, L]."""
        parts = torch.stft(source, self._fft, self._hop, window=window, return_complex=True)
        return torch.cat([parts.abs(), parts.angle()], 1)


class HarmonicSource(nn.Module):
    """Pitch in hertz [1, 2 F] → excitation f32[1, 2 F · upsampling]."""

    def __init__(self, upsampling: int, rate: int) -> None:
        super().__init__()
        self.l_linear = nn.Linear(_HARMONICS, 1)
        self._upsampling = upsampling
        self._rate = rate

    def forward(self, pitch: Tensor, noise_seed: int) -> Tensor:
        pitch = pitch.float()
        harmonics = torch.arange(1, _HARMONICS + 1, device=pitch.device, dtype=torch.float32)
        turns = (pitch.unsqueeze(1) * harmonics.view(1, -1, 1) / self._rate) % 1
        phase = turns.cumsum(-1) * 2 * torch.pi * self._upsampling
        phase = F.interpolate(phase, scale_factor=self._upsampling, mode="linear")
        voiced = (pitch > _VOICED_HZ).float().repeat_interleave(self._upsampling, 1).unsqueeze(1)
        noise = normal(noise_seed, phase.numel(), pitch.device).view(phase.shape)
        loudness = voiced * _VOICED_NOISE + (1 - voiced) * _SINE_AMPLITUDE / 3
        waves = torch.sin(phase) * _SINE_AMPLITUDE * voiced + loudness * noise
        weight, bias = self.l_linear.weight.float(), self.l_linear.bias.float()
        merged = F.linear(waves.transpose(1, 2), weight, bias)
        return torch.tanh(merged).squeeze(-1)

"""The decoder of SNAC, a neural audio codec: codes at several rates become samples.

Codes of every level are looked up, projected, repeated to the finest rate and added; convolutions
then raise the rate by `decoder_rates`. Keys of `config` and names of weights are those of the
published checkpoints (`hubertsiuzdak/snac_24khz`).

Convolutions are weight-normed there: a direction and a length for each filter. The product is
folded at the first call, so weights must not change after it.

Where the checkpoint has `noise`, the published decoder multiplies fresh random numbers into each
block. Here they are a hash of the codes being decoded: a window sounds the same whenever, and
beside whatever, it is decoded.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.counter_hash import fold, normal

_DILATIONS = (1, 3, 9)


class _Folded(nn.Module):
    """Weight-normed filters [first, second, width], normed over all but the first dim."""

    def __init__(
        self, source: str, shape: tuple[int, int, int], *, bias: int, like: dict[str, Any]
    ) -> None:
        super().__init__()
        self.source = source
        self.scale = nn.Parameter(torch.empty(shape[0], 1, 1, **like), requires_grad=False)
        self.direction = nn.Parameter(torch.empty(shape, **like), requires_grad=False)
        self.bias: nn.Parameter | None = None
        if bias:
            self.bias = nn.Parameter(torch.empty(bias, **like), requires_grad=False)
        self._weight: Tensor | None = None

    @property
    def weight(self) -> Tensor:
        if self._weight is None:
            length = self.direction.square().sum((1, 2), keepdim=True).sqrt()
            self._weight = self.direction * (self.scale / length)
        return self._weight

    def checkpoint_names(self) -> Mapping[str, str]:
        names = {
            "scale": f"{self.source}.parametrizations.weight.original0",
            "direction": f"{self.source}.parametrizations.weight.original1",
        }
        return names | ({"bias": f"{self.source}.bias"} if self.bias is not None else {})


class _Conv(_Folded):
    """A convolution that keeps the length."""

    def __init__(
        self,
        source: str,
        inner: int,
        outer: int,
        *,
        width: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        like: dict[str, Any],
    ) -> None:
        super().__init__(
            source, (outer, inner // groups, width), bias=outer if bias else 0, like=like
        )
        self.padding = (width - 1) * dilation // 2
        self.dilation = dilation
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv1d(
            x,
            self.weight,
            self.bias,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )


class _Upsample(_Folded):
    """A transposed convolution that makes the length `stride` times as long."""

    def __init__(
        self, source: str, inner: int, outer: int, *, stride: int, like: dict[str, Any]
    ) -> None:
        super().__init__(source, (inner, outer, 2 * stride), bias=outer, like=like)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv_transpose1d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=-(-self.stride // 2),
            output_padding=self.stride % 2,
        )


class _Snake(nn.Module):
    """`x + sin(alpha * x) ** 2 / alpha`, with an alpha for each channel."""

    def __init__(self, source: str, channels: int, *, like: dict[str, Any]) -> None:
        super().__init__()
        self.source = source
        self.alpha = nn.Parameter(torch.empty(1, channels, 1, **like), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).square()

    def checkpoint_names(self) -> Mapping[str, str]:
        return {"alpha": f"{self.source}.alpha"}


class _Residual(nn.Module):
    """Two convolutions, each after a snake, beside the input."""

    def __init__(
        self, source: str, channels: int, *, dilation: int, groups: int, like: dict[str, Any]
    ) -> None:
        super().__init__()
        self.first_snake = _Snake(f"{source}.block.0", channels, like=like)
        self.wide = _Conv(
            f"{source}.block.1",
            channels,
            channels,
            width=7,
            dilation=dilation,
            groups=groups,
            like=like,
        )
        self.second_snake = _Snake(f"{source}.block.2", channels, like=like)
        self.narrow = _Conv(f"{source}.block.3", channels, channels, like=like)

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = self.narrow(self.second_snake(self.wide(self.first_snake(x))))
        return x + change


class _Block(nn.Module):
    """Raises the rate by `stride` and halves the channels."""

    def __init__(
        self,
        source: str,
        inner: int,
        outer: int,
        *,
        stride: int,
        noise: bool,
        groups: int,
        stream: int,
        like: dict[str, Any],
    ) -> None:
        super().__init__()
        self.stream = stream
        self.snake = _Snake(f"{source}.block.0", inner, like=like)
        self.upsample = _Upsample(f"{source}.block.1", inner, outer, stride=stride, like=like)
        self.noise: _Conv | None = None
        if noise:
            self.noise = _Conv(f"{source}.block.2.linear", outer, outer, bias=False, like=like)
        self.residuals = nn.Sequential(
            *(
                _Residual(
                    f"{source}.block.{2 + noise + index}",
                    outer,
                    dilation=dilation,
                    groups=groups,
                    like=like,
                )
                for index, dilation in enumerate(_DILATIONS)
            )
        )

    def forward(self, x: Tensor, seed: Tensor) -> Tensor:
        x = self.upsample(self.snake(x))
        if self.noise is not None:
            times = torch.arange(x.shape[-1], device=x.device)
            drawn = normal(seed[:, None, None], self.stream, times)
            x = x + drawn.to(x.dtype) * self.noise(x)
        made: Tensor = self.residuals(x)
        return made


class _Level(nn.Module):
    """The codes of one rate: a codebook and a projection."""

    def __init__(
        self, source: str, *, size: int, width: int, latent: int, stride: int, like: dict[str, Any]
    ) -> None:
        super().__init__()
        self.source = source
        self.stride = stride
        self.codebook = nn.Parameter(torch.empty(size, width, **like), requires_grad=False)
        self.project = _Conv(f"{source}.out_proj", width, latent, like=like)

    def forward(self, codes: Tensor) -> Tensor:
        found = functional.embedding(codes, self.codebook).transpose(1, 2)
        made: Tensor = self.project(found)
        return made.repeat_interleave(self.stride, dim=-1)

    def checkpoint_names(self) -> Mapping[str, str]:
        return {"codebook": f"{self.source}.codebook.weight"}


class Decoder(nn.Module):
    """Codes of all levels to samples. `frame_samples` is what one code of the coarsest makes."""

    def __init__(
        self, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        require_value(config, "attn_window_size", None, None)
        like = {"dtype": dtype, "device": device}
        rates = tuple(required(config, "decoder_rates"))
        strides = tuple(required(config, "vq_strides"))
        channels = int(required(config, "decoder_dim"))
        latent = config.get("latent_dim")
        if latent is None:
            latent = int(required(config, "encoder_dim")) * 2 ** len(
                required(config, "encoder_rates")
            )
        depthwise = bool(config.get("depthwise", True))
        self.code_count = int(required(config, "codebook_size"))
        self.strides = strides
        self.frame_samples = strides[0]
        for rate in rates:
            self.frame_samples *= rate
        self.levels = nn.ModuleList(
            _Level(
                f"quantizer.quantizers.{index}",
                size=self.code_count,
                width=int(required(config, "codebook_dim")),
                latent=latent,
                stride=stride,
                like=like,
            )
            for index, stride in enumerate(strides)
        )
        if depthwise:
            self.enter = nn.Sequential(
                _Conv("decoder.model.0", latent, latent, width=7, groups=latent, like=like),
                _Conv("decoder.model.1", latent, channels, like=like),
            )
        else:
            self.enter = nn.Sequential(
                _Conv("decoder.model.0", latent, channels, width=7, like=like)
            )
        first = len(self.enter)
        self.blocks = nn.ModuleList(
            _Block(
                f"decoder.model.{first + index}",
                channels >> index,
                channels >> (index + 1),
                stride=rate,
                noise=bool(config.get("noise", True)),
                groups=channels >> (index + 1) if depthwise else 1,
                stream=index,
                like=like,
            )
            for index, rate in enumerate(rates)
        )
        last = first + len(rates)
        self.leave_snake = _Snake(f"decoder.model.{last}", channels >> len(rates), like=like)
        self.leave = _Conv(
            f"decoder.model.{last + 1}", channels >> len(rates), 1, width=7, like=like
        )

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A decoder without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, str]:
        """Own parameter → tensor of the checkpoint."""
        return {
            f"{path}.{own}": name
            for path, module in self.named_modules()
            if isinstance(module, _Folded | _Snake | _Level)
            for own, name in module.checkpoint_names().items()
        }

    def samples(self, codes: tuple[Tensor, ...]) -> Tensor:
        """f32[B, F * frame_samples] of F frames; i64[B, F * strides[0] / strides[l]] of level l."""
        levels = [level(of_level) for level, of_level in zip(self.levels, codes, strict=True)]
        x = levels[0]
        for level in levels[1:]:
            x = x + level
        seed = fold(torch.cat(codes, dim=1))
        x = self.enter(x)
        for block in self.blocks:
            x = block(x, seed)
        return torch.tanh(self.leave(self.leave_snake(x))).squeeze(1).float()

"""The decoder of SNAC, a neural audio codec: codes at several rates become samples.

Codes of every level are looked up, projected, repeated to the finest rate and added; convolutions
then raise the rate by `decoder_rates`. Keys of `config` and names of weights are those of the
published checkpoints (`hubertsiuzdak/snac_24khz`).

Only the samples that are asked for are made: each convolution computes the positions that the next
one reads (`Span`), and zeros stand only where the sound of the codes begins and ends.

Convolutions are weight-normed there: a direction and a length for each filter. The product is
folded at the first call, so weights must not change after it.

Where the checkpoint has `noise`, the published decoder multiplies fresh random numbers into each
block. Here they are a hash of the codes being decoded: a window sounds the same whenever, and
beside whatever, it is decoded.

On a GPU a decoder of depthwise convolutions is a chain of our own kernels
(`kernels.codec_stack`).
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.layers.counter_hash import fold, normal
from mstarc_runtime.layers.span import Span

_DILATIONS = (1, 3, 9)


class Folded(nn.Module):
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


class Conv(Folded):
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
        self.reach = (width - 1) * dilation // 2
        self.dilation = dilation
        self.groups = groups

    def forward(self, x: Tensor, held: Span, wanted: Span) -> Tensor:
        return functional.conv1d(
            wanted.of(x, held, beyond=self.reach),
            self.weight,
            self.bias,
            dilation=self.dilation,
            groups=self.groups,
        )


class Upsample(Folded):
    """A transposed convolution that makes the length `stride` times as long."""

    def __init__(
        self, source: str, inner: int, outer: int, *, stride: int, like: dict[str, Any]
    ) -> None:
        super().__init__(source, (inner, outer, 2 * stride), bias=outer, like=like)
        self.stride = stride
        self.shift = -(-stride // 2)

    def needed(self, wanted: Span) -> Span:
        """What of the input `wanted` is made of."""
        stride, length = self.stride, wanted.length // self.stride
        begin = max((wanted.begin + self.shift) // stride - 1, 0)
        end = min((wanted.end - 1 + self.shift) // stride + 1, length)
        return Span(begin=begin, end=end, length=length)

    def forward(self, x: Tensor, held: Span, wanted: Span) -> Tensor:
        made: Tensor = functional.conv_transpose1d(x, self.weight, self.bias, stride=self.stride)
        first = wanted.begin + self.shift - held.begin * self.stride
        return made[..., first : first + len(wanted)]


class Snake(nn.Module):
    """`x + sin(alpha * x) ** 2 / alpha`, with an alpha for each channel."""

    def __init__(self, source: str, channels: int, *, like: dict[str, Any]) -> None:
        super().__init__()
        self.source = source
        self.alpha = nn.Parameter(torch.empty(1, channels, 1, **like), requires_grad=False)

    @property
    def inverse(self) -> Tensor:
        return (self.alpha + 1e-9).reciprocal()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inverse * torch.sin(self.alpha * x).square()

    def checkpoint_names(self) -> Mapping[str, str]:
        return {"alpha": f"{self.source}.alpha"}


class Residual(nn.Module):
    """Two convolutions, each after a snake, beside the input."""

    def __init__(
        self, source: str, channels: int, *, dilation: int, groups: int, like: dict[str, Any]
    ) -> None:
        super().__init__()
        self.first_snake = Snake(f"{source}.block.0", channels, like=like)
        self.wide = Conv(
            f"{source}.block.1",
            channels,
            channels,
            width=7,
            dilation=dilation,
            groups=groups,
            like=like,
        )
        self.second_snake = Snake(f"{source}.block.2", channels, like=like)
        self.narrow = Conv(f"{source}.block.3", channels, channels, like=like)

    def needed(self, wanted: Span) -> Span:
        return wanted.widened(self.wide.reach)

    def forward(self, x: Tensor, held: Span, wanted: Span) -> Tensor:
        change = self.second_snake(self.wide(self.first_snake(x), held, wanted))
        added: Tensor = self.narrow(change, wanted, wanted)
        return wanted.of(x, held) + added


class Block(nn.Module):
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
        self.snake = Snake(f"{source}.block.0", inner, like=like)
        self.upsample = Upsample(f"{source}.block.1", inner, outer, stride=stride, like=like)
        self.noise: Conv | None = None
        if noise:
            self.noise = Conv(f"{source}.block.2.linear", outer, outer, bias=False, like=like)
        # The same twice: modules for torch, and what they are.
        self.changes = tuple(
            Residual(
                f"{source}.block.{2 + noise + index}",
                outer,
                dilation=dilation,
                groups=groups,
                like=like,
            )
            for index, dilation in enumerate(_DILATIONS)
        )
        self.residuals = nn.ModuleList(self.changes)

    def spans(self, wanted: Span) -> tuple[Span, ...]:
        """What is made by the upsampling and by each residual; the last is `wanted`."""
        found = [wanted]
        for residual in reversed(self.changes):
            found.append(residual.needed(found[-1]))
        return tuple(reversed(found))

    def needed(self, wanted: Span) -> Span:
        return self.upsample.needed(self.spans(wanted)[0])

    def forward(self, x: Tensor, held: Span, wanted: Span, seed: Tensor) -> Tensor:
        made, *later = self.spans(wanted)
        x = self.upsample(self.snake(x), held, made)
        if self.noise is not None:
            times = torch.arange(made.begin, made.end, device=x.device)
            drawn = normal(seed[:, None, None], self.stream, times)
            x = x + drawn.to(x.dtype) * self.noise(x, made, made)
        for residual, span in zip(self.changes, later, strict=True):
            x, made = residual(x, made, span), span
        return x


class Level(nn.Module):
    """The codes of one rate: a codebook and a projection."""

    def __init__(
        self, source: str, *, size: int, width: int, latent: int, stride: int, like: dict[str, Any]
    ) -> None:
        super().__init__()
        self.source = source
        self.stride = stride
        self.codebook = nn.Parameter(torch.empty(size, width, **like), requires_grad=False)
        self.project = Conv(f"{source}.out_proj", width, latent, like=like)

    def forward(self, codes: Tensor) -> Tensor:
        found = functional.embedding(codes, self.codebook).transpose(1, 2)
        whole = Span(begin=0, end=codes.shape[1], length=codes.shape[1])
        made: Tensor = self.project(found, whole, whole)
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
        self.codes_a_frame = [strides[0] // stride for stride in strides]
        self.rates = rates
        self.frame_samples = strides[0]
        for rate in rates:
            self.frame_samples *= rate
        self.readers = tuple(
            Level(
                f"quantizer.quantizers.{index}",
                size=self.code_count,
                width=int(required(config, "codebook_dim")),
                latent=latent,
                stride=stride,
                like=like,
            )
            for index, stride in enumerate(strides)
        )
        self.levels = nn.ModuleList(self.readers)
        entry = [Conv("decoder.model.0", latent, channels, width=7, like=like)]
        if depthwise:
            entry = [
                Conv("decoder.model.0", latent, latent, width=7, groups=latent, like=like),
                Conv("decoder.model.1", latent, channels, like=like),
            ]
        self.entry = tuple(entry)
        self.enter = nn.ModuleList(self.entry)
        first = len(self.entry)
        self.raising = tuple(
            Block(
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
        self.blocks = nn.ModuleList(self.raising)
        last = first + len(rates)
        self.leave_snake = Snake(f"decoder.model.{last}", channels >> len(rates), like=like)
        self.leave = Conv(
            f"decoder.model.{last + 1}", channels >> len(rates), 1, width=7, like=like
        )
        self._stack: Any = None

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        """A decoder without weights. Fails with MS9109 where `config` can't be served."""
        return cls(config, dtype=dtype, device=device)

    def weight_map(self) -> Mapping[str, str]:
        """Own parameter → tensor of the checkpoint."""
        return {
            f"{path}.{own}": name
            for path, module in self.named_modules()
            if isinstance(module, Folded | Snake | Level)
            for own, name in module.checkpoint_names().items()
        }

    def spans(self, wanted: Span) -> tuple[Span, ...]:
        """What the entry and each block make so that the samples `wanted` can be made."""
        found = [wanted.widened(self.leave.reach)]
        for block in reversed(self.raising):
            found.append(block.needed(found[-1]))
        return tuple(reversed(found))

    def samples(self, codes: Tensor, *, frames: range | None = None) -> Tensor:
        """f32[B, len(frames) * frame_samples]: the sound of `frames`, of all if None.

        `codes` i64[B, F * (1 + 2 + 4 …)] of F frames: all of the coarsest level, then the next.
        """
        count = codes.shape[1] // sum(self.codes_a_frame)
        chosen = range(count) if frames is None else frames
        wanted = Span(
            begin=chosen.start * self.frame_samples,
            end=chosen.stop * self.frame_samples,
            length=count * self.frame_samples,
        )
        if codes.device.type == "cuda" and self._is_stacked(count):
            made: Tensor = self._stack(codes, wanted)
            return made
        return self.plain_samples(codes, wanted)

    def _is_stacked(self, frames: int) -> bool:
        """Whether our own kernels serve this decoder, for `frames` at a time."""
        if self._stack is None:
            # Here, because its compiler comes with torch for GPUs only.
            from mstarc_runtime.kernels.codec_stack import CodecStack, is_served

            self._stack = CodecStack(self) if is_served(self) else False
        return self._stack is not False and self._stack.takes(frames)

    def plain_samples(self, codes: Tensor, wanted: Span) -> Tensor:
        """The samples `wanted` by plain torch, whatever the device."""
        count = codes.shape[1] // sum(self.codes_a_frame)
        of_levels = codes.split([count * each for each in self.codes_a_frame], dim=1)
        levels = [reader(each) for reader, each in zip(self.readers, of_levels, strict=True)]
        seed = fold(codes)
        x = levels[0]
        for level in levels[1:]:
            x = x + level
        entered, *spans = self.spans(wanted)
        held = Span(begin=0, end=entered.length, length=entered.length)
        for conv in self.entry:
            x, held = conv(x, held, entered), entered
        for block, span in zip(self.raising, spans, strict=True):
            x, held = block(x, held, span, seed), span
        sound: Tensor = self.leave(self.leave_snake(x), held, wanted)
        return torch.tanh(sound).squeeze(1).float()

"""Code2Wav's convolutions as a chain of kernels: rows of its attention → samples.

Weights are laid out for `kernels.vocoder` and kept. Each kernel makes only what those behind it
need for the samples that are wanted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.kernels import vocoder

if TYPE_CHECKING:
    from mstarc_runtime.models.qwen3_omni.code2wav import Code2Wav

_INNER = 32
"""Channels are multiples of these."""

_TINY = 1e-9

Curve = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a block of a convolution computes, of how many channels of a tap at a time.

    `group` blocks of rows run side by side.
    """

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    group: int = 8


# Measured on one H200, with the convolutions of Qwen3-Omni's Code2Wav: TFLOP/s for 16 requests and
# for one, of 25 frames each.
LARGE = Tile(rows=128, columns=128, inner=64, warps=4, stages=3)  # 317 .. 495; 109 .. 258
SMALL = Tile(rows=64, columns=64, inner=128, warps=4, stages=3)  # 321 .. 420; 98 .. 242
SHALLOW = Tile(rows=64, columns=64, inner=64, warps=4, stages=4)
ODD = Tile(rows=128, columns=128, inner=32, warps=8, stages=4)  # 242; 185
NARROW = Tile(rows=128, columns=32, inner=32, warps=4, stages=4)  # 64 by one tap: the bus's speed


def tile_of(rows: int, columns: int, inner: int, taps: int, processors: int) -> Tile:
    """The blocks of a product: large ones where they are enough for all multiprocessors."""
    if inner % SHALLOW.inner or columns % SHALLOW.columns:
        return NARROW if taps == 1 or inner % ODD.inner else ODD
    large = triton.cdiv(rows, LARGE.rows) * triton.cdiv(columns, LARGE.columns)
    if large >= processors and taps > 1:
        return LARGE
    return SHALLOW if inner % SMALL.inner else SMALL


def is_served(of: "Code2Wav", dtype: torch.dtype) -> bool:
    """Whether the kernels compute this vocoder: numbers of 16 bits, channels by 32."""
    last: Any = of.decoder[-1]
    narrowest = last.conv.weight.shape[1]
    return dtype in (torch.bfloat16, torch.float16) and narrowest % _INNER == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sequence:
    """[B, T, C], and the same behind the next snake."""

    plain: Tensor | None
    snaked: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """Of a convolution: [positions * C, taps * K], and f32[C]; how far back its first tap hears.

    A row of its product holds `positions` of what it makes.
    """

    matrix: Tensor
    bias: Tensor
    taps: int
    back: int
    dilation: int = 1
    positions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Residual:
    before: Curve
    wide: _Weights
    between: Curve
    narrow: _Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    before: Curve
    stretch: _Weights
    residuals: list[_Residual]


class VocoderStack:
    """The kernels of one vocoder, whose weights must not change any more."""

    def __init__(self, of: "Code2Wav") -> None:
        parts: Any = of.decoder
        first, *blocks, snake, last = parts
        self._parts = list(of.parts())
        raising: Any = of.upsample
        self._raising = [(_stretch(stretch), refine) for stretch, refine in raising]
        self._enter = _causal(first)
        self._blocks = [_block(block.block) for block in blocks]
        self._after = [*(block.before for block in self._blocks[1:]), _curve(snake)]
        self._taps = last.conv.weight[0].t().float().contiguous()
        self._bias = last.conv.bias.float()
        device = self._taps.device
        self._processors = 1
        if device.type == "cuda":
            self._processors = torch.cuda.get_device_properties(device).multi_processor_count

    def __call__(self, rows: Tensor, wanted: int) -> Tensor:
        """f32[B, N] of rows [B, F, C]: the last `wanted` samples, or all if there are fewer."""
        counts = self._counts(wanted)
        x = rows[:, -counts.pop() :]
        for weights, refine in self._raising:
            wide = functional.linear(x, weights.matrix).view(x.shape[0], -1, x.shape[2])
            x = (wide + weights.bias.to(x.dtype))[:, -counts.pop() :]
            x = _refined(refine, x)[:, -counts.pop() :]
        made = self._convolved(
            x.contiguous(), self._enter, counts.pop(), curve=self._blocks[0].before
        )
        for block, after in zip(self._blocks, self._after, strict=True):
            counts.pop()
            made = self._raised(block, made.snaked, counts, after)
        return self._samples(made.snaked, wanted)

    def _counts(self, wanted: int) -> list[int]:
        """How many positions the first part hears, and how many each one makes; last first."""
        counts = [wanted]
        for part in reversed(self._parts):
            counts.append(part.needs(counts[-1]))
        return counts

    def _raised(self, block: _Block, x: Tensor, counts: list[int], after: Curve) -> _Sequence:
        """A block, and the snake `after` it, of what is behind its first snake."""
        curves = [*(residual.before for residual in block.residuals), after]
        made = self._convolved(x, block.stretch, counts.pop(), curve=curves[0], is_kept=True)
        for residual, curve in zip(block.residuals, curves[1:], strict=True):
            count = counts.pop()
            wide = self._convolved(made.snaked, residual.wide, count, curve=residual.between)
            made = self._convolved(
                wide.snaked,
                residual.narrow,
                count,
                curve=curve,
                beside=made.plain,
                is_kept=curve is not after,
            )
        return made

    def _convolved(
        self,
        x: Tensor,
        weights: _Weights,
        count: int,
        *,
        curve: Curve,
        beside: Tensor | None = None,
        is_kept: bool = False,
    ) -> _Sequence:
        """The last `count` positions, or all if there are fewer; added to `beside`."""
        batch, held, inner = x.shape
        columns, channels = weights.matrix.shape[0], weights.bias.shape[0]
        # A position of a transposed convolution comes of two, so one less than it hears is there.
        made = min(triton.cdiv(count, weights.positions), held - (weights.positions > 1))
        shape = (batch, made * weights.positions, channels)
        snaked = x.new_empty(shape)
        kept = x.new_empty(shape) if is_kept else None
        m = batch * made
        tile = tile_of(m, columns, inner, weights.taps, self._processors)
        blocks = triton.cdiv(m, tile.rows) * triton.cdiv(columns, tile.columns)
        vocoder.convolution[(blocks,)](
            x, weights.matrix, weights.bias, x if beside is None else beside, *curve,
            snaked if kept is None else kept, snaked,
            held, 0 if beside is None else beside.shape[1], made, m, weights.back,
            weights.dilation, inner, columns, channels,
            TAPS=weights.taps, ADDED=beside is not None, KEPT=is_kept, SNAKED=True,
            BM=tile.rows, BN=tile.columns, BK=tile.inner, GROUP=tile.group,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        return _Sequence(plain=kept, snaked=snaked)

    def _samples(self, x: Tensor, wanted: int) -> Tensor:
        batch, held, channels = x.shape
        count = min(wanted, held)
        out = x.new_empty((batch, count), dtype=torch.float32)
        vocoder.samples[(triton.cdiv(count, 32), batch)](
            x, self._taps, self._bias, out, held, count,
            C=channels, TAPS=self._taps.shape[0], LANES=triton.next_power_of_2(channels), BT=32,
        )  # fmt: skip
        return out


def _refined(part: Any, x: Tensor) -> Tensor:
    """What `ConvNeXt` makes of x [B, T, C]. A library's convolution would plan each shape anew."""
    conv = part.dwconv.conv
    heard = functional.pad(x.float(), (0, 0, part.dwconv.back, 0))
    made = conv.bias.float().expand(x.shape)
    for tap, weights in enumerate(conv.weight[:, 0].float().unbind(1)):
        made = torch.addcmul(made, heard[:, tap : tap + x.shape[1]], weights)
    rows = part.norm(made.to(x.dtype))
    added: Tensor = part.gamma * part.pwconv2(functional.gelu(part.pwconv1(rows)))
    return x + added


def _block(parts: Any) -> _Block:
    snake, stretch, *residuals = parts
    return _Block(
        before=_curve(snake),
        stretch=_stretch(stretch),
        residuals=[
            _Residual(
                before=_curve(residual.act1),
                wide=_causal(residual.conv1),
                between=_curve(residual.act2),
                narrow=_causal(residual.conv2),
            )
            for residual in residuals
        ],
    )


def _causal(part: Any) -> _Weights:
    weight = part.conv.weight  # [out, in, taps]
    return _Weights(
        matrix=weight.permute(0, 2, 1).flatten(1).contiguous(),
        bias=part.conv.bias.float(),
        taps=weight.shape[2],
        back=part.back,
        dilation=part.conv.dilation[0],
    )


def _stretch(part: Any) -> _Weights:
    """A transposed convolution, of each input alone or of width twice its stride."""
    weight, rate = part.conv.weight, part.rate  # [in, out, width]
    taps = weight.shape[2] // rate
    assert weight.shape[2] == taps * rate and part.cut == (taps - 1) * rate, "an odd stretch"
    # What is heard further back comes first.
    late = weight.unflatten(2, (taps, rate)).flip(2)  # [in, out, taps, rate]
    return _Weights(
        matrix=late.permute(3, 1, 2, 0).flatten(2).flatten(0, 1).contiguous(),
        bias=part.conv.bias.float(),
        taps=taps,
        back=taps - 1,
        positions=rate,
    )


def _curve(snake: Any) -> Curve:
    """What a snake multiplies by before and behind its sine."""
    rate, depth = snake.alpha.float().exp(), snake.beta.float().exp()
    return rate.contiguous(), (depth + _TINY).reciprocal().contiguous()

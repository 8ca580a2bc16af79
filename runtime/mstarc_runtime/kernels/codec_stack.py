"""A SNAC decoder as a chain of kernels: codes → the samples that are wanted.

Weights are folded, laid out for `kernels.codec` and kept: the levels' projections as tables of
their codebooks, transposed convolutions as matrices of two inputs to `stride` outputs. A block of
the decoder is eight kernels, or seven where its noise is part of the product before it.

Products of float16 numbers, added up in float32, have the error of torch's convolutions, which cut
float32 to 10 bits on a GPU: about 60 dB below the sound (`benchmarks/codec.py` prints both).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import triton
from torch import Tensor

from mstarc_runtime.kernels import codec

if TYPE_CHECKING:
    from mstarc_runtime.layers.span import Span
    from mstarc_runtime.models.snac import (
        Block,
        Conv,
        Decoder,
        Level,
        Residual,
        Snake,
        Upsample,
    )

_STRIDES = (4, 2, 1)
_MOST_FRAMES = 18
"""Codes of a row are hashed by one block of 128."""

_WHOLE_CHANNELS = 128
"""Up to so many channels a block of a product holds all of them, and mixes in the noise itself."""

_INNER = 64
"""Channels are multiples of these, the last block's of half of them."""

Curve = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How products are computed: the type of weights, and `input_precision` of Triton's dot."""

    dtype: torch.dtype
    dot: str = "tf32"


HALF = Precision(dtype=torch.float16)
FULL = Precision(dtype=torch.float32, dot="tf32x3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a block of a product computes, of how much at a time."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """How work is cut into blocks: products by what they are, depthwise convolutions by rows.

    `mixed` is for products that mix in the noise; its columns are all channels.
    """

    rows: Tile = Tile(rows=64, columns=64, inner=64, warps=4, stages=3)
    pairs: Tile = Tile(rows=64, columns=64, inner=64, warps=4, stages=4)
    mixed: Tile = Tile(rows=64, columns=_WHOLE_CHANNELS, inner=64, warps=4, stages=3)
    depthwise: int = 16

    def tile(self, form: object, *, whole: int) -> Tile:
        """The block of a product; of `whole` columns where they are one position's."""
        if whole:
            return replace(self.mixed, columns=whole)
        return self.pairs if form is codec.PAIRS else self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """f32 numbers, and the same behind the next snake, of positions `span`; one may be missing."""

    span: "Span"
    plain: Tensor | None
    snaked: Tensor | None


def is_served(decoder: "Decoder") -> bool:
    """Whether the kernels compute this decoder: depthwise, of three levels, channels by 64."""
    counts = [block.upsample.direction.shape[1] for block in decoder.raising]
    groups = [block.changes[0].wide.groups for block in decoder.raising]
    first, *others = decoder.entry
    return (
        tuple(decoder.strides) == _STRIDES
        and len(others) == 1
        and groups == counts
        and all(count % _INNER == 0 for count in (*counts, first.direction.shape[0]))
        and decoder.leave.direction.dtype is torch.float32
    )


class CodecStack:
    """The kernels of one decoder, whose weights must not change any more.

    `chained`: each kernel starts while the one before it ends. By itself the chain is faster then;
    beside another one its waiting blocks would hold multiprocessors that the other could use.
    """

    def __init__(
        self,
        decoder: "Decoder",
        precision: Precision = HALF,
        *,
        chained: bool = False,
        shapes: "Shapes | None" = None,
    ) -> None:
        self._precision = precision
        self._shapes = shapes or Shapes()
        self._chained = {"CHAINED": chained, "launch_pdl": chained}
        self._decoder = decoder
        self._tables = [_table(level) for level in decoder.readers]
        wide, narrow = decoder.entry
        self._enter_taps, self._enter_bias = _taps(wide), _own(wide.bias)
        self._enter = self._matrix(narrow)
        self._blocks = [_BlockWeights(block, self) for block in decoder.raising]
        self._leave_taps = decoder.leave.weight[0].t().contiguous()
        self._leave_bias = _own(decoder.leave.bias)
        curves = [block.curve for block in self._blocks]
        self._after = [*curves[1:], _curve(decoder.leave_snake)]

    def takes(self, frames: int) -> bool:
        return frames <= _MOST_FRAMES

    def __call__(self, numbers: Tensor, wanted: "Span") -> Tensor:
        """f32[B, len(wanted)] of codes i64[B, 7F], the coarsest level's first."""
        entered, *spans = self._decoder.spans(wanted)
        latent, seeds = self._latent(numbers, entered)
        x = self._product(
            latent, entered, entered, self._enter, self._enter.shape[0],
            bias=self._decoder.entry[1].bias, curve=self._blocks[0].curve,
        )  # fmt: skip
        for weights, span, after in zip(self._blocks, spans, self._after, strict=True):
            x = self._block(weights, x, span, seeds, after)
        return self._samples(x, wanted)

    def _latent(self, numbers: Tensor, span: "Span") -> tuple[Tensor, Tensor]:
        batch, channels = numbers.shape[0], self._enter_taps.shape[1]
        out = numbers.new_empty((batch, len(span), channels), dtype=self._precision.dtype)
        seeds = numbers.new_empty(batch)
        codec.latent[(batch, len(span), triton.cdiv(channels, 256))](
            numbers, *self._tables, self._enter_taps, self._enter_bias, out, seeds,
            numbers.shape[1] // 7, span.begin, len(span), C=channels, BLOCK=256,
            **self._chained,
        )  # fmt: skip
        return out, seeds

    def _block(
        self, weights: "_BlockWeights", x: Sequence, wanted: "Span", seeds: Tensor, after: Curve
    ) -> Sequence:
        """What comes behind the snake `after`."""
        made, *later = weights.block.spans(wanted)
        curves = [*(residual.curve for residual in weights.residuals), after]
        is_mixed = weights.noise is not None and weights.channels <= _WHOLE_CHANNELS
        assert x.snaked is not None
        begin, end = weights.rows(made)
        x = self._product(
            x.snaked, x.span, made, weights.upsample, weights.channels,
            form=codec.PAIRS, effect=codec.MIXED if is_mixed else codec.PLAIN,
            first=begin, rows=end - begin, shift=weights.shift, bias=weights.bias,
            mixing=weights.noise if is_mixed else None, seeds=seeds, stream=weights.block.stream,
            curve=curves[0] if is_mixed or weights.noise is None else None, keep=True,
        )  # fmt: skip
        if weights.noise is not None and not is_mixed:
            assert x.plain is not None
            x = self._product(
                x.plain, made, made, weights.noise, weights.channels,
                effect=codec.NOISE, beside=x, seeds=seeds, stream=weights.block.stream,
                curve=curves[0], keep=True,
            )  # fmt: skip
        for number, (residual, span) in enumerate(zip(weights.residuals, later, strict=True)):
            x = self._product(
                self._depthwise(x, span, residual), span, span, residual.narrow, weights.channels,
                effect=codec.CHANGE, beside=x, bias=residual.bias, curve=curves[number + 1],
                keep=number + 1 < len(later),
            )  # fmt: skip
        return x

    def _depthwise(self, x: Sequence, wanted: "Span", weights: "_ResidualWeights") -> Tensor:
        assert x.snaked is not None
        batch, _, channels = x.snaked.shape
        out = x.snaked.new_empty(batch, len(wanted), channels)
        m = batch * len(wanted)
        lanes = min(channels, 128) if channels % 128 == 0 else _INNER
        codec.depthwise[(triton.cdiv(m, self._shapes.depthwise), channels // lanes)](
            x.snaked, weights.taps, weights.taps_bias, *weights.inner, out,
            x.span.begin, len(x.span), wanted.begin, len(wanted), m, weights.dilation, channels,
            BM=self._shapes.depthwise, BC=lanes, **self._chained,
        )  # fmt: skip
        return out

    def _product(
        self,
        x: Tensor,
        held: "Span",
        wanted: "Span",
        weight: Tensor,
        channels: int,
        *,
        form: object = codec.ROWS,
        effect: object = codec.PLAIN,
        first: int | None = None,
        rows: int | None = None,
        shift: int = 0,
        bias: Tensor | None = None,
        mixing: Tensor | None = None,
        beside: Sequence | None = None,
        seeds: Tensor | None = None,
        stream: int = 0,
        curve: Curve | None = None,
        keep: bool = False,
    ) -> Sequence:
        """`wanted` of the product of x, which holds `held`; by default a row is one of `wanted`."""
        first = wanted.begin if first is None else first
        rows = len(wanted) if rows is None else rows
        batch, (columns, inner) = x.shape[0], weight.shape
        shape = (batch, len(wanted), channels)
        kept = x.new_empty(shape, dtype=torch.float32) if keep else None
        snaked = None if curve is None else x.new_empty(shape, dtype=self._precision.dtype)
        alpha, inverse = curve or (x, x)
        added = x if beside is None else beside.plain
        span = held if beside is None else beside.span
        m = batch * rows
        tile = self._shapes.tile(form, whole=0 if mixing is None else channels)
        codec.product[(triton.cdiv(m, tile.rows), triton.cdiv(columns, tile.columns))](
            x, weight, x if bias is None else bias, x if mixing is None else mixing, added,
            x if seeds is None else seeds, alpha, inverse,
            x if kept is None else kept, x if snaked is None else snaked,
            held.begin, len(held), span.begin, len(span), first, rows, shift,
            wanted.begin, len(wanted), m, stream, inner, columns, channels,
            FORM=form, EFFECT=effect, KEPT=keep, SNAKED=curve is not None,
            ADDED=beside is not None, BM=tile.rows, BN=tile.columns, BK=tile.inner,
            PRECISION=self._precision.dot, num_warps=tile.warps, num_stages=tile.stages,
            **self._chained,
        )  # fmt: skip
        return Sequence(span=wanted, plain=kept, snaked=snaked)

    def _samples(self, x: Sequence, wanted: "Span") -> Tensor:
        assert x.snaked is not None
        batch, _, channels = x.snaked.shape
        out = x.snaked.new_empty((batch, len(wanted)), dtype=torch.float32)
        codec.samples[(triton.cdiv(len(wanted), 32), batch)](
            x.snaked, self._leave_taps, self._leave_bias, out,
            x.span.begin, len(x.span), wanted.begin, len(wanted),
            C=channels, LANES=triton.next_power_of_2(channels), BT=32, **self._chained,
        )  # fmt: skip
        return out

    def _matrix(self, conv: "Conv") -> Tensor:
        """[N, K] of a convolution of width 1."""
        return conv.weight[:, :, 0].to(self._precision.dtype).contiguous()

    def _two_inputs(self, conv: "Upsample") -> Tensor:
        """[stride * out, 2 * in]: what the position before gives, and what the position does."""
        weight, stride = conv.weight, conv.stride
        late, early = weight[:, :, stride:], weight[:, :, :stride]
        both = torch.stack([late, early])  # [2, in, out, stride]
        matrix = both.permute(3, 2, 0, 1).flatten(2).flatten(0, 1)
        return matrix.to(self._precision.dtype).contiguous()


class _ResidualWeights:
    def __init__(self, residual: "Residual", stack: CodecStack) -> None:
        self.curve = _curve(residual.first_snake)
        self.taps, self.taps_bias = _taps(residual.wide), _own(residual.wide.bias)
        self.inner = _curve(residual.second_snake)
        self.narrow, self.bias = stack._matrix(residual.narrow), _own(residual.narrow.bias)
        self.dilation = residual.wide.dilation


class _BlockWeights:
    def __init__(self, block: "Block", stack: CodecStack) -> None:
        self.block = block
        self.curve = _curve(block.snake)
        self.upsample, self.bias = stack._two_inputs(block.upsample), _own(block.upsample.bias)
        self.shift = block.upsample.shift
        self.channels = block.upsample.direction.shape[1]
        self.noise = None if block.noise is None else stack._matrix(block.noise)
        self.residuals = [_ResidualWeights(residual, stack) for residual in block.changes]

    def rows(self, made: "Span") -> tuple[int, int]:
        """Positions of the input from which `made` comes, each with the one before it."""
        stride = self.block.upsample.stride
        return (made.begin + self.shift) // stride, (made.end - 1 + self.shift) // stride + 1


def _table(level: "Level") -> Tensor:
    """What each code of a level adds, f32[codes, C]."""
    matrix, bias = level.project.weight[:, :, 0].double(), _own(level.project.bias).double()
    return (level.codebook.double() @ matrix.t() + bias).float().contiguous()


def _taps(conv: "Conv") -> Tensor:
    """[7, C] of a depthwise convolution."""
    return conv.weight[:, 0].t().contiguous()


def _curve(snake: "Snake") -> Curve:
    return snake.alpha.flatten().contiguous(), snake.inverse.flatten().contiguous()


def _own(bias: Tensor | None) -> Tensor:
    assert bias is not None
    return bias

"""A SNAC decoder as a chain of kernels: codes → the samples that are wanted, 23 launches.

Weights are folded, laid out for `kernels.codec` and kept: the levels' projections as tables of
their codebooks, transposed convolutions as matrices of two inputs to `stride` outputs. Between the
kernels a sequence is kept as it is, for the sum beside it, and behind the next snake, which is so
computed once and not for each tap.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import triton
from torch import Tensor

from mstarc_runtime.kernels import codec

if TYPE_CHECKING:
    from mstarc_runtime.models.snac import Block, Conv, Decoder, Snake, Span, Upsample

_STRIDES = (4, 2, 1)
_MOST_FRAMES = 18
"""Codes of a row are hashed by one block of 128."""

_MULTIPROCESSORS = 132


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How products are computed: the type of weights, and `input_precision` of Triton's dot."""

    dtype: torch.dtype = torch.float32
    dot: str = "tf32"


TF32 = Precision()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a block of a product computes, and of how much at a time."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int


def is_served(decoder: "Decoder") -> bool:
    """Whether the kernels compute this decoder: depthwise, of three levels, channels by 32."""
    counts = [block.upsample.direction.shape[1] for block in decoder.blocks]
    groups = [block.residuals[0].wide.groups for block in decoder.blocks]
    first, *others = decoder.enter
    return (
        tuple(decoder.strides) == _STRIDES
        and len(others) == 1
        and groups == counts
        and all(count % 32 == 0 for count in (*counts, first.direction.shape[0]))
        and decoder.leave.direction.dtype is torch.float32
    )


class CodecStack:
    """The kernels of one decoder, whose weights must not change any more."""

    def __init__(self, decoder: "Decoder", precision: Precision = TF32) -> None:
        self._precision = precision
        self._decoder = decoder
        self._tables = [_table(level) for level in decoder.levels]
        wide, narrow = decoder.enter
        self._enter_taps, self._enter_bias = _taps(wide), _own(wide.bias)
        self._enter = self._matrix(narrow)
        self._blocks = [_BlockWeights(block, self) for block in decoder.blocks]
        self._leave_snake = _curve(decoder.leave_snake)
        self._leave_taps = decoder.leave.weight[0].t().contiguous()
        self._leave_bias = _own(decoder.leave.bias)

    def takes(self, frames: int) -> bool:
        return frames <= _MOST_FRAMES

    def __call__(self, numbers: Tensor, wanted: "Span") -> Tensor:
        """f32[B, len(wanted)] of codes i64[B, 7F], the coarsest level's first."""
        decoder = self._decoder
        entered, *spans = decoder.spans(wanted)
        batch = numbers.shape[0]
        x, seeds = self._latent(numbers, entered)
        curve = self._blocks[0].curve
        _, x = self._rows(x, entered, self._enter, bias=decoder.enter[1].bias, curve=curve)
        held = entered
        for index, (block, weights, span) in enumerate(
            zip(decoder.blocks, self._blocks, spans, strict=True)
        ):
            is_last = index + 1 == len(self._blocks)
            after = self._leave_snake if is_last else self._blocks[index + 1].curve
            x = self._block(block, weights, x, held, span, seeds, after)
            held = span
        out = x.new_empty(batch, len(wanted))
        lanes = triton.next_power_of_2(x.shape[2])
        grid = (triton.cdiv(len(wanted), 32), batch)
        codec.samples[grid](
            x, self._leave_taps, self._leave_bias, out,
            held.begin, len(held), wanted.begin, len(wanted),
            C=x.shape[2], LANES=lanes, BT=32,
        )  # fmt: skip
        return out

    def _latent(self, numbers: Tensor, span: "Span") -> tuple[Tensor, Tensor]:
        batch, channels = numbers.shape[0], self._enter_taps.shape[1]
        out = self._tables[0].new_empty(batch, len(span), channels)
        seeds = numbers.new_empty(batch)
        grid = (batch, len(span), triton.cdiv(channels, 256))
        codec.latent[grid](
            numbers, *self._tables, self._enter_taps, self._enter_bias, out, seeds,
            numbers.shape[1] // 7, span.begin, len(span), C=channels, BLOCK=256,
        )  # fmt: skip
        return out, seeds

    def _block(
        self,
        block: "Block",
        weights: "_BlockWeights",
        x: Tensor,
        held: "Span",
        wanted: "Span",
        seeds: Tensor,
        after: tuple[Tensor, Tensor],
    ) -> Tensor:
        """What comes behind the next snake."""
        made, *later = block.spans(wanted)
        curves = [*(residual.curve for residual in weights.residuals), after]
        first = None if weights.noise is not None else curves[0]
        kept, snaked = self._pairs(x, held, made, block.upsample, weights, first)
        if weights.noise is not None:
            kept, snaked = self._rows(
                kept, made, weights.noise, beside=kept, seeds=seeds, stream=block.stream,
                curve=curves[0], keep=True,
            )  # fmt: skip
        for index, (residual, own, span) in enumerate(
            zip(block.residuals, weights.residuals, later, strict=True)
        ):
            is_last = index + 1 == len(later)
            kept, snaked = self._change(
                snaked, kept, made, span, own, residual.wide.dilation, curves[index + 1],
                keep=not is_last,
            )  # fmt: skip
            made = span
        return snaked

    # The three forms of a product

    def _pairs(
        self,
        x: Tensor,
        held: "Span",
        wanted: "Span",
        conv: "Upsample",
        weights: "_BlockWeights",
        curve: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor]:
        begin = (wanted.begin + conv.shift) // conv.stride
        end = (wanted.end - 1 + conv.shift) // conv.stride + 1
        return self._product(
            x, held, wanted, weights.upsample, weights.channels,
            form=codec.PAIRS, begin_row=begin, rows=end - begin, shift=conv.shift,
            bias=conv.bias, curve=curve, keep=True,
        )  # fmt: skip

    def _rows(
        self,
        x: Tensor,
        held: "Span",
        weight: Tensor,
        *,
        bias: Tensor | None = None,
        beside: Tensor | None = None,
        seeds: Tensor | None = None,
        stream: int = 0,
        curve: tuple[Tensor, Tensor] | None = None,
        keep: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return self._product(
            x, held, held, weight, weight.shape[0],
            form=codec.ROWS, begin_row=held.begin, rows=len(held), bias=bias, beside=beside,
            effect=codec.PLAIN if seeds is None else codec.NOISE, seeds=seeds, stream=stream,
            curve=curve, keep=keep,
        )  # fmt: skip

    def _change(
        self,
        snaked: Tensor,
        kept: Tensor,
        held: "Span",
        wanted: "Span",
        weights: "_ResidualWeights",
        dilation: int,
        curve: tuple[Tensor, Tensor],
        *,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        return self._product(
            snaked, held, wanted, weights.narrow, weights.narrow.shape[0],
            form=codec.DILATED, begin_row=wanted.begin, rows=len(wanted), bias=weights.bias,
            effect=codec.CHANGE, beside=kept, taps=weights, dilation=dilation,
            curve=curve, keep=keep,
        )  # fmt: skip

    def _product(
        self,
        x: Tensor,
        held: "Span",
        wanted: "Span",
        weight: Tensor,
        channels: int,
        *,
        form: object,
        begin_row: int,
        rows: int,
        shift: int = 0,
        effect: object = codec.PLAIN,
        bias: Tensor | None = None,
        beside: Tensor | None = None,
        seeds: Tensor | None = None,
        stream: int = 0,
        taps: "_ResidualWeights | None" = None,
        dilation: int = 1,
        curve: tuple[Tensor, Tensor] | None = None,
        keep: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """What is kept, and what comes behind `curve`; the same tensor where only one is made."""
        batch = x.shape[0]
        shape = (batch, len(wanted), channels)
        kept = x.new_empty(shape) if keep else x
        snaked = x.new_empty(shape) if curve is not None else kept
        alpha, inverse = curve or (x, x)
        count, inner = weight.shape
        m = batch * rows
        tile = tile_of(form, m, count)
        codec.product[(triton.cdiv(m, tile.rows), triton.cdiv(count, tile.columns))](
            x, weight, x if bias is None else bias,
            x if taps is None else taps.taps, x if taps is None else taps.taps_bias,
            x if taps is None else taps.inner[0], x if taps is None else taps.inner[1],
            x if beside is None else beside, x if seeds is None else seeds,
            alpha, inverse, kept, snaked,
            held.begin, len(held), begin_row, rows, shift, wanted.begin, len(wanted), m,
            dilation, stream, inner, count, channels,
            FORM=form, EFFECT=effect, KEPT=keep, SNAKED=curve is not None,
            HAS_BIAS=bias is not None, BM=tile.rows, BN=tile.columns, BK=tile.inner,
            PRECISION=self._precision.dot, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        return kept, snaked

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
    def __init__(self, residual: "torch.nn.Module", stack: CodecStack) -> None:
        self.curve = _curve(residual.first_snake)
        self.taps, self.taps_bias = _taps(residual.wide), _own(residual.wide.bias)
        self.inner = _curve(residual.second_snake)
        self.narrow, self.bias = stack._matrix(residual.narrow), _own(residual.narrow.bias)


class _BlockWeights:
    def __init__(self, block: "Block", stack: CodecStack) -> None:
        self.curve = _curve(block.snake)
        self.upsample = stack._two_inputs(block.upsample)
        self.channels = block.upsample.direction.shape[1]
        self.noise = None if block.noise is None else stack._matrix(block.noise)
        self.residuals = [_ResidualWeights(residual, stack) for residual in block.residuals]


def tile_of(form: object, rows: int, columns: int) -> Tile:
    """The block for a product with so many rows and columns."""
    if rows <= 16:
        return Tile(rows=16, columns=32, inner=32, warps=4, stages=3)
    if form is codec.DILATED:
        return Tile(rows=64, columns=64, inner=16, warps=4, stages=1)
    few = triton.cdiv(rows, 64) * triton.cdiv(columns, 128) < _MULTIPROCESSORS
    return Tile(rows=64, columns=64 if few else 128, inner=32, warps=4, stages=3)


def _table(level: "torch.nn.Module") -> Tensor:
    """What each code of a level adds, f32[codes, C]."""
    project = level.project
    matrix = project.weight[:, :, 0].double()
    return (level.codebook.double() @ matrix.t() + project.bias.double()).float().contiguous()


def _taps(conv: "Conv") -> Tensor:
    """[7, C] of a depthwise convolution."""
    return conv.weight[:, 0].t().contiguous()


def _curve(snake: "Snake") -> tuple[Tensor, Tensor]:
    return snake.alpha.flatten().contiguous(), snake.inverse.flatten().contiguous()


def _own(bias: Tensor | None) -> Tensor:
    assert bias is not None
    return bias

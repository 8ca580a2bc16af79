"""Attention inside the images of a tower of float32, in products of TF32 or of parts.

`tower_rows` has what parts are; here, too, products of them add up to one of float32.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.tower_rows import WHOLE, Split, operand, put, put_ones

# Weights of attention are multiplied by this, for parts of float16 that are not too small for it.
_WEIGHT = tl.constexpr(16384.0)


@triton.jit
def _halves(x, HALVES: tl.constexpr):
    """Two numbers of float16 that add up, or `x` as it is."""
    first = x
    second = x
    if HALVES > 0:
        first = x.to(tl.float16)
        second = (x - first.to(tl.float32)).to(tl.float16)
    return first, second


@triton.jit
def _times(a, a_rest, b, b_rest, total, HALVES: tl.constexpr, PRECISION: tl.constexpr):
    """`total` and the product of what `_halves` gives."""
    if HALVES == 0:
        total = tl.dot(a, b, total, input_precision=PRECISION)
    else:
        if HALVES == 2:
            total = tl.dot(a_rest, b, total)
            total = tl.dot(a, b_rest, total)
        total = tl.dot(a, b, total)
    return total


@triton.jit
def _attend(
    qkv, out, unit, scale, ones, K, rows,
    D: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPLIT: tl.constexpr, HALVES: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block: some rows of one head of one image.

    A head's numbers are `WIDE` and what is left of them, padded to `REST` or none. Times `unit`
    they are what is multiplied, as they are or as 1 or 2 `HALVES`.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1)
    image = tl.program_id(2)
    within = tl.arange(0, WIDE)
    own = within < D
    is_row = (row < rows)[:, None]
    base = qkv + image.to(tl.int64) * rows * 3 * K + head * D
    asked = tl.load(
        base + row[:, None] * 3 * K + within[None, :], mask=is_row & own[None, :], other=0.0
    )
    q, q_low = _halves(asked * unit, HALVES)
    best = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    seen = tl.zeros((M, WIDE), dtype=tl.float32)
    if REST > 0:
        behind = WIDE + tl.arange(0, REST)
        inside = behind < D
        asked_rest = tl.load(
            base + row[:, None] * 3 * K + behind[None, :],
            mask=is_row & inside[None, :],
            other=0.0,
        )
        q_rest, q_rest_low = _halves(asked_rest * unit, HALVES)
        seen_rest = tl.zeros((M, REST), dtype=tl.float32)
    for start in range(0, rows, N):
        other = start + tl.arange(0, N)
        there = other < rows
        at = base + K + other * 3 * K
        held = tl.load(at[None, :] + within[:, None], mask=there[None, :] & own[:, None], other=0.0)
        k, k_low = _halves(held * unit, HALVES)
        scores = tl.zeros((M, N), dtype=tl.float32)
        scores = _times(q, q_low, k, k_low, scores, HALVES, PRECISION)
        if REST > 0:
            held_rest = tl.load(
                at[None, :] + behind[:, None],
                mask=there[None, :] & inside[:, None],
                other=0.0,
            )
            k_rest, k_rest_low = _halves(held_rest * unit, HALVES)
            scores = _times(q_rest, q_rest_low, k_rest, k_rest_low, scores, HALVES, PRECISION)
        scores = tl.where(there[None, :], scores * (scale * 1.4426950408889634), float("-inf"))
        above = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.exp2(scores - above[:, None])
        fade = tl.exp2(best - above)
        total = total * fade + tl.sum(weights, axis=1)
        p, p_low = _halves(weights * _WEIGHT if HALVES > 0 else weights, HALVES)
        value = tl.load(
            at[:, None] + K + within[None, :], mask=there[:, None] & own[None, :], other=0.0
        )
        v, v_low = _halves(value * unit, HALVES)
        seen = _times(p, p_low, v, v_low, seen * fade[:, None], HALVES, PRECISION)
        if REST > 0:
            value_rest = tl.load(
                at[:, None] + K + behind[None, :],
                mask=there[:, None] & inside[None, :],
                other=0.0,
            )
            v_rest, v_rest_low = _halves(value_rest * unit, HALVES)
            seen_rest = seen_rest * fade[:, None]
            seen_rest = _times(p, p_low, v_rest, v_rest_low, seen_rest, HALVES, PRECISION)
        best = above
    if HALVES > 0:
        total *= _WEIGHT
    number = (image.to(tl.int64) * rows + row)[:, None]
    # What was multiplied by `unit` is scaled as the next product takes it.
    put(
        out, number, head * D + within[None, :], is_row & own[None, :], seen / total[:, None],
        1.0, K, SPLIT,
    )  # fmt: skip
    if REST > 0:
        put(
            out, number, head * D + behind[None, :], is_row & inside[None, :],
            seen_rest / total[:, None], 1.0, K, SPLIT,
        )  # fmt: skip
    if SPLIT > 0:
        tail = tl.arange(0, 16)[None, :]
        put_ones(out, number, tail, is_row & (tail < 16) & (head == 0), ones, K, SPLIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """How attention is cut: rows of a block, others at once, a block's warps, loads under way."""

    rows: int
    columns: int
    warps: int
    stages: int


# By parts, measured on an H200.
_CUTS = {
    0: _Cut(rows=128, columns=64, warps=8, stages=2),
    1: _Cut(rows=128, columns=64, warps=8, stages=2),
    3: _Cut(rows=128, columns=32, warps=8, stages=2),
    6: _Cut(rows=128, columns=32, warps=8, stages=2),
}
_SMALL = _Cut(rows=16, columns=16, warps=4, stages=2)


def attend(
    qkv: Tensor, *, images: int, heads: int, unit: float = 1.0, split: Split = WHOLE
) -> Tensor:
    """What rows of each image see of one another, as a product takes it; `unit` * `qkv`
    f32[R, 3 K]. For float16 the scale is one for queries and keys, too.

    Products inside are those of TF32, or add up to those of float32 as rows are split.
    """
    count, width = qkv.shape[0], qkv.shape[1] // 3
    assert qkv.is_contiguous()
    rows, head_dim = count // images, width // heads
    out = operand(count, width, qkv.device, split)
    # A head's width as two powers of two: of 72 numbers 80 are multiplied, and not 128.
    wide = max(16, 1 << (head_dim.bit_length() - 1))
    rest = max(0, head_dim - wide)
    cut = _SMALL if rows <= 32 else _CUTS[split.parts]
    _attend[(triton.cdiv(rows, cut.rows), heads, images)](
        qkv,
        out,
        unit * split.scale,
        head_dim**-0.5 / split.scale**2,
        split.scale,
        width,
        rows,
        D=head_dim,
        WIDE=wide,
        REST=max(16, triton.next_power_of_2(rest)) if rest else 0,
        M=cut.rows,
        N=cut.columns,
        SPLIT=split.parts,
        HALVES=0,
        PRECISION="tf32x3" if split.parts in (3, 6) else "tf32",
        num_warps=cut.warps,
        num_stages=cut.stages,
    )
    return out

"""Attention inside the images of a tower of float32; rows are given as `tower_rows` has them."""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.tower_rows import WHOLE, Split, operand, put, put_ones


@triton.jit
def _attend(
    qkv, bias, out, unit, scale, ones, K, rows,
    D: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    SPLIT: tl.constexpr, BIASED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block: some rows of one head of one image.

    A head's numbers are `WIDE` and what is left of them, padded to `REST` or none. What is seen is
    given times `unit`. A bias that `qkv` lacks is added to queries and to what is seen, since its
    weights add up to 1; that of keys is one number for all that a row sees, and changes nothing.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1)
    image = tl.program_id(2)
    within = tl.arange(0, WIDE)
    own = within < D
    is_row = (row < rows)[:, None]
    base = qkv + image.to(tl.int64) * rows * 3 * K + head * D
    q = tl.load(
        base + row[:, None] * 3 * K + within[None, :], mask=is_row & own[None, :], other=0.0
    )
    if BIASED:
        q += tl.load(bias + head * D + within, mask=own, other=0.0)[None, :]
    best = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    seen = tl.zeros((M, WIDE), dtype=tl.float32)
    if REST > 0:
        behind = WIDE + tl.arange(0, REST)
        inside = behind < D
        q_rest = tl.load(
            base + row[:, None] * 3 * K + behind[None, :],
            mask=is_row & inside[None, :],
            other=0.0,
        )
        if BIASED:
            q_rest += tl.load(bias + head * D + behind, mask=inside, other=0.0)[None, :]
        seen_rest = tl.zeros((M, REST), dtype=tl.float32)
    for start in range(0, rows, N):
        other = start + tl.arange(0, N)
        there = other < rows
        at = base + K + other * 3 * K
        k = tl.load(at[None, :] + within[:, None], mask=there[None, :] & own[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision=PRECISION)
        if REST > 0:
            k_rest = tl.load(
                at[None, :] + behind[:, None],
                mask=there[None, :] & inside[:, None],
                other=0.0,
            )
            scores = tl.dot(q_rest, k_rest, scores, input_precision=PRECISION)
        scores = tl.where(there[None, :], scores * (scale * 1.4426950408889634), float("-inf"))
        above = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.exp2(scores - above[:, None])
        fade = tl.exp2(best - above)
        total = total * fade + tl.sum(weights, axis=1)
        v = tl.load(
            at[:, None] + K + within[None, :], mask=there[:, None] & own[None, :], other=0.0
        )
        seen = seen * fade[:, None] + tl.dot(weights, v, input_precision=PRECISION)
        if REST > 0:
            v_rest = tl.load(
                at[:, None] + K + behind[None, :],
                mask=there[:, None] & inside[None, :],
                other=0.0,
            )
            seen_rest = seen_rest * fade[:, None]
            seen_rest += tl.dot(weights, v_rest, input_precision=PRECISION)
        best = above
    total = total / unit
    seen = seen / total[:, None]
    if BIASED:
        seen += tl.load(bias + 2 * K + head * D + within, mask=own, other=0.0)[None, :]
    number = (image.to(tl.int64) * rows + row)[:, None]
    at = head * D + within[None, :]
    put(out, number, at, is_row & own[None, :], seen, 1.0, K, SPLIT)
    if REST > 0:
        seen_rest = seen_rest / total[:, None]
        if BIASED:
            seen_rest += tl.load(bias + 2 * K + head * D + behind, mask=inside, other=0.0)[None, :]
        at = head * D + behind[None, :]
        put(out, number, at, is_row & inside[None, :], seen_rest, 1.0, K, SPLIT)
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


# Measured on an H200, in products of TF32 and in parts of such.
_CUT = _Cut(rows=128, columns=64, warps=8, stages=2)
_SMALL = _Cut(rows=16, columns=16, warps=4, stages=2)


def attend(
    qkv: Tensor,
    *,
    images: int,
    heads: int,
    unit: float = 1.0,
    bias: Tensor | None = None,
    split: Split = WHOLE,
) -> Tensor:
    """What rows of each image see of one another, as a product takes it; `unit` * `qkv`
    f32[R, 3 K], and of a `unit` of 1 a `bias` f32[3 K] that is still to be added.

    Products inside are those of TF32, or three of such that add up to one of float32 where parts
    of rows do, too.
    """
    count, width = qkv.shape[0], qkv.shape[1] // 3
    assert qkv.is_contiguous() and (bias is None or unit == 1.0)
    rows, head_dim = count // images, width // heads
    out = operand(count, width, qkv.device, split)
    # A head's width as two powers of two: of 72 numbers 80 are multiplied, and not 128.
    wide = max(16, 1 << (head_dim.bit_length() - 1))
    rest = max(0, head_dim - wide)
    cut = _SMALL if rows <= 32 else _CUT
    _attend[(triton.cdiv(rows, cut.rows), heads, images)](
        qkv,
        qkv if bias is None else bias,
        out,
        unit * split.scale,
        head_dim**-0.5 * unit**2,
        split.scale,
        width,
        rows,
        D=head_dim,
        WIDE=wide,
        REST=max(16, triton.next_power_of_2(rest)) if rest else 0,
        M=cut.rows,
        N=cut.columns,
        SPLIT=split.parts,
        BIASED=bias is not None,
        PRECISION="tf32x3" if split.parts in (3, 6) else "tf32",
        num_warps=cut.warps,
        num_stages=cut.stages,
    )
    return out

"""A weight matrix times two to four rows: `skinny`'s products without the tensor cores.

As in `one_row` each block takes rows of the weights, whole, and adds in the order of the columns:
nothing is split, so nothing meets in memory and no block waits for another. The same registers
serve all rows of `h`. A block holds the next `HELD` passes of its weights, the first of them since
before it waited for the kernel in front. Which kinds there are, and what comes in and goes out, is
in `skinny`'s text.

Four numbers travel as one of 64 bits, of `weight` and of `h`; the four products of each go onto
one sum, so that sums take as many registers for four rows as the weights would in float32.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.kinds import GATE, PROJECT, RESIDUAL
from mstarc_runtime.kernels.row_squares import leave_rows, squares_of


@triton.jit
def four(packed):
    """The four bf16 numbers that stand in each of `packed` i64, as f32."""
    low = packed.to(tl.int32)
    high = (packed >> 32).to(tl.int32)
    return (
        (low << 16).to(tl.float32, bitcast=True),
        (low & -65536).to(tl.float32, bitcast=True),
        (high << 16).to(tl.float32, bitcast=True),
        (high & -65536).to(tl.float32, bitcast=True),
    )


@triton.jit
def _added(sums, weights, x_at):
    x0, x1, x2, x3 = four(tl.load(x_at))
    w0, w1, w2, w3 = weights
    return sums + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3


@triton.jit
def _all_added(s0, s1, s2, s3, packed, x_at, B: tl.constexpr, FOURTH: tl.constexpr):
    """The sums of every row with one pass's weights; `x_at` i64[1, C] points into the first row's
    numbers, `FOURTH` = K / 4 further on are the next row's."""
    weights = four(packed)
    s0 = _added(s0, weights, x_at)
    s1 = _added(s1, weights, x_at + FOURTH)
    if B > 2:
        s2 = _added(s2, weights, x_at + 2 * FOURTH)
    if B > 3:
        s3 = _added(s3, weights, x_at + 3 * FOURTH)
    return s0, s1, s2, s3


@triton.jit
def _side_by_side(v0, v1, v2, v3, batch, B: tl.constexpr):
    """[R, 4] of the rows' [R]."""
    together = tl.where(batch[None, :] == 0, v0[:, None], v1[:, None])
    if B > 2:
        together = tl.where(batch[None, :] == 2, v2[:, None], together)
    if B > 3:
        together = tl.where(batch[None, :] == 3, v3[:, None], together)
    return together


@triton.jit
def several_rows(
    h,
    squares,
    parts,
    weight,
    out,
    residual,
    gain,
    squares_out,
    N,
    eps,
    B: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    HELD: tl.constexpr,
    EARLY: tl.constexpr,
    PARTS: tl.constexpr,
    KIND: tl.constexpr,
    NORMED: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`h` i64[B, K / 4] and `weight` i64[.., K / 4] are bf16 numbers. `COLUMNS` a pass.
    `EARLY`: squares are added before the weights, as they are too many to be kept meanwhile."""
    tl.static_assert(B >= 2 and B <= 4)
    tl.static_assert(K % (COLUMNS * HELD) == 0)
    FOURTH: tl.constexpr = K // 4
    PASS: tl.constexpr = COLUMNS // 4
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    inside = rows < N
    columns = tl.arange(0, PASS)
    if KIND == GATE:
        # Gate and up of an output stand side by side.
        both = tl.arange(0, 2 * ROWS)
        own = tl.minimum(block * ROWS + both // 2, N - 1) + (both % 2) * N
    else:
        own = tl.where(inside, rows, N - 1)
    a_at = weight + own[:, None].to(tl.int64) * FOURTH + columns[None, :]
    allow_next(CHAINED)
    held = ()
    for number in tl.static_range(HELD):
        ones = tl.load(a_at + number * PASS, eviction_policy="evict_first")
        held += (ones,)  # type: ignore[assignment]  # it grows while this is unrolled
    wait_for_previous(CHAINED)
    batch = tl.arange(0, 4)
    is_row = batch < B
    where = inside[:, None] & is_row[None, :]
    to = batch[None, :] * N + rows[:, None]
    # What is needed behind the loop is asked for before it, so that the end waits for nothing.
    if NORMED:
        squared = squares_of(squares, parts, batch, B, PARTS)
        if EARLY:
            squared = tl.sum(squared, axis=0)
    if KIND == RESIDUAL:
        before = tl.load(residual + to, mask=where, other=0.0)
        gains = tl.load(gain + rows, mask=inside, other=0.0).to(tl.float32)
    x_at = h + columns[None, :]
    s0 = tl.zeros(a_at.shape, dtype=tl.float32)
    s1 = s0
    s2 = s0
    s3 = s0
    for first in tl.range(HELD * PASS, FOURTH, HELD * PASS):
        coming = ()
        for number in tl.static_range(HELD):
            at = first + number * PASS
            ones = tl.load(a_at + at, eviction_policy="evict_first")
            s0, s1, s2, s3 = _all_added(
                s0, s1, s2, s3, held[number], x_at + at - HELD * PASS, B, FOURTH
            )
            coming += (ones,)  # type: ignore[assignment]  # as above
        held = coming
    for number in tl.static_range(HELD):
        at = FOURTH - (HELD - number) * PASS
        s0, s1, s2, s3 = _all_added(s0, s1, s2, s3, held[number], x_at + at, B, FOURTH)
    sums = _side_by_side(
        tl.sum(s0, axis=1), tl.sum(s1, axis=1), tl.sum(s2, axis=1), tl.sum(s3, axis=1), batch, B
    )
    if NORMED:
        if not EARLY:
            squared = tl.sum(squared, axis=0)
        sums *= tl.rsqrt(squared / K + eps)[None, :]
    if KIND == PROJECT:
        tl.store(out + to, sums.to(out.dtype.element_ty), mask=where)
    elif KIND == GATE:
        gates, ups = tl.split(tl.permute(tl.reshape(sums, (ROWS, 2, 4)), (0, 2, 1)))
        made = gates / (1.0 + tl.exp(-gates)) * ups
        tl.store(out + to, made.to(out.dtype.element_ty), mask=where)
    elif KIND == RESIDUAL:
        sums += before
        leave_rows(sums, gains, residual, out, squares_out, block, batch, to, where, B)
    else:
        tl.store(out + to, sums, mask=where)

"""A weight matrix times some rows: `skinny`'s products, columns spread over the warps of a block.

The tensor cores add, each warp its own columns, and what the warps have is added within the block:
so nothing is split between blocks, as in `several_rows`, and no sum costs more for eight rows than
for one. A block holds the next `HELD` passes of its weights, the first of them since before it
waited for the kernel in front. Which kinds there are, and what comes in and goes out, is in
`skinny`'s text.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.kinds import GATE, PROJECT, RESIDUAL
from mstarc_runtime.kernels.row_squares import leave_rows, squares_of


@triton.jit
def spread_rows(
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
    WIDTH: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WARPS: tl.constexpr,
    HELD: tl.constexpr,
    PARTS: tl.constexpr,
    KIND: tl.constexpr,
    NORMED: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`COLUMNS` a warp and pass."""
    tl.static_assert(K % (COLUMNS * WARPS * HELD) == 0)
    PASS: tl.constexpr = COLUMNS * WARPS
    BOTH: tl.constexpr = 2 * ROWS if KIND == GATE else ROWS
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    inside = rows < N
    columns = tl.arange(0, WARPS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    batch = tl.arange(0, WIDTH)
    is_row = batch < B
    if KIND == GATE:
        # Gate and up of an output stand side by side.
        both = tl.arange(0, 2 * ROWS)
        own = tl.minimum(block * ROWS + both // 2, N - 1) + (both % 2) * N
    else:
        own = tl.where(inside, rows, N - 1)
    a_at = weight + own[None, :, None].to(tl.int64) * K + columns[:, None, :]
    allow_next(CHAINED)
    held = ()
    for number in tl.static_range(HELD):
        ones = tl.load(a_at + number * PASS, eviction_policy="evict_first")
        held += (ones,)  # type: ignore[assignment]  # it grows while this is unrolled
    wait_for_previous(CHAINED)
    where = inside[:, None] & is_row[None, :]
    to = batch[None, :] * N + rows[:, None]
    x_at = h + tl.where(is_row, batch, 0)[None, None, :] * K + columns[:, :, None]
    # What is needed behind the loop is asked for before it, so that the end waits for nothing.
    if NORMED:
        squared = squares_of(squares, parts, batch, B, PARTS)
    if KIND == RESIDUAL:
        before = tl.load(residual + to, mask=where, other=0.0)
        gains = tl.load(gain + rows, mask=inside, other=0.0).to(tl.float32)
    sums = tl.zeros((WARPS, BOTH, WIDTH), dtype=tl.float32)
    for first in tl.range(HELD * PASS, K, HELD * PASS):
        coming = ()
        for number in tl.static_range(HELD):
            at = first + number * PASS
            x = tl.load(x_at + at - HELD * PASS)
            ones = tl.load(a_at + at, eviction_policy="evict_first")
            sums = tl.dot(held[number], x, sums)
            coming += (ones,)  # type: ignore[assignment]  # as above
        held = coming
    for number in tl.static_range(HELD):
        x = tl.load(x_at + K - (HELD - number) * PASS)
        sums = tl.dot(held[number], x, sums)
    sums = tl.sum(sums, axis=0)
    if NORMED:
        sums *= tl.rsqrt(tl.sum(squared, axis=0) / K + eps)[None, :]
    if KIND == PROJECT:
        tl.store(out + to, sums.to(out.dtype.element_ty), mask=where)
    elif KIND == GATE:
        gates, ups = tl.split(tl.permute(tl.reshape(sums, (ROWS, 2, WIDTH)), (0, 2, 1)))
        made = gates / (1.0 + tl.exp(-gates)) * ups
        tl.store(out + to, made.to(out.dtype.element_ty), mask=where)
    elif KIND == RESIDUAL:
        sums += before
        leave_rows(sums, gains, residual, out, squares_out, block, batch, to, where, B)
    else:
        tl.store(out + to, sums, mask=where)

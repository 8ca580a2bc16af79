"""Which experts two to four rows want: `choose_experts` without the tensor cores.

What comes in and goes out is in its text. The router's weights are in registers before a block
waits for the kernel in front; the block that comes last looks at as many rows as there are, a warp
each. `places` of rows that the bucket has not are left as they are.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.row_squares import squares_of
from mstarc_runtime.kernels.several_rows import four


@triton.jit
def _ordered(scores, expert, EXPERTS: tl.constexpr):
    """A whole number of each that orders as scores do, and of equals the first before others."""
    bits = scores.to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.to(tl.int64) << 32) + (EXPERTS - 1 - expert)[None, :].to(tl.int64)


@triton.jit
def _four_added(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit
def _multiplied(weights, x_at):
    x0, x1, x2, x3 = four(tl.load(x_at))
    w0, w1, w2, w3 = weights
    return w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3


@triton.jit
def _stored(product, row: tl.constexpr, logits, tile, own, TILES: tl.constexpr, ROWS: tl.constexpr):
    if tile < TILES:
        tl.store(logits + row * (TILES * ROWS) + tile * ROWS + own, product)
    else:
        tl.store(logits + 4 * (TILES * ROWS) + row + own, product, mask=own == 0)


@triton.jit
def choose_several(
    h,
    squares,
    parts,
    router,
    gate,
    logits,
    arrived,
    ids,
    shares,
    places,
    wanted,
    eps,
    B: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    EXPERTS: tl.constexpr,
    CHOSEN: tl.constexpr,
    PIECES: tl.constexpr,
    SLOTS: tl.constexpr,
    NORMED: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`h`, `router` and `gate` by fours. `logits` f32[4, EXPERTS + 1] is scratch: those of the
    router row by row, then the gate's."""
    tile = tl.program_id(0)
    FOURTH: tl.constexpr = W // 4
    TILES: tl.constexpr = EXPERTS // ROWS
    TAKEN: tl.constexpr = CHOSEN + PIECES
    own = tl.arange(0, ROWS)
    columns = tl.arange(0, FOURTH)[None, :]
    batch = tl.arange(0, 4)
    allow_next(CHAINED)
    # Behind the tiles of the router there is one of the gate, a single row.
    read = tile * ROWS + own
    matrix = router
    if tile == TILES:
        read = own * 0
        matrix = gate
    weights = four(tl.load(matrix + read[:, None] * FOURTH + columns))
    wait_for_previous(CHAINED)
    s0 = _multiplied(weights, h + columns)
    s1 = _multiplied(weights, h + FOURTH + columns)
    s2 = s1
    s3 = s1
    if B > 2:
        s2 = _multiplied(weights, h + 2 * FOURTH + columns)
    if B > 3:
        s3 = _multiplied(weights, h + 3 * FOURTH + columns)
    s0, s1, s2, s3 = tl.reduce((s0, s1, s2, s3), 1, _four_added)
    _stored(s0, 0, logits, tile, own, TILES, ROWS)
    _stored(s1, 1, logits, tile, own, TILES, ROWS)
    if B > 2:
        _stored(s2, 2, logits, tile, own, TILES, ROWS)
    if B > 3:
        _stored(s3, 3, logits, tile, own, TILES, ROWS)
    tl.debug_barrier()
    if tl.atomic_add(arrived, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        expert = tl.arange(0, EXPERTS)
        slot = tl.arange(0, SLOTS)
        is_row = batch < B
        scores = tl.load(
            logits + batch[:, None] * EXPERTS + expert[None, :],
            mask=is_row[:, None],
            other=0.0,
            cache_modifier=".cg",
        )
        squared = squares_of(squares, parts, batch, B, PARTS)
        if PIECES > 0:
            opened = tl.load(
                logits + 4 * EXPERTS + batch, mask=is_row, other=0.0, cache_modifier=".cg"
            )
        factor = tl.rsqrt(tl.sum(squared, axis=0) / W + eps)
        scores *= factor[:, None]
        highest = tl.max(scores, axis=1)
        nowhere = places + expert[:, None] * WIDTH + batch[None, :]
        tl.store(nowhere, tl.full((EXPERTS, 4), -1, dtype=tl.int32), mask=is_row[None, :])
        left = _ordered(scores, expert, EXPERTS)
        # Behind what is chosen come the pieces, in their order.
        taken = tl.zeros((4, SLOTS), dtype=tl.int32) + (EXPERTS - CHOSEN + slot)[None, :]
        powers = tl.zeros((4, SLOTS), dtype=tl.float32)
        for number in tl.static_range(CHOSEN):
            best = tl.max(left, axis=1)
            which = (EXPERTS - 1 - (best & 0x7FFFFFFF)).to(tl.int32)
            is_it = expert[None, :] == which[:, None]
            left = tl.where(is_it, -0x7FFFFFFFFFFFFFFF, left)
            bits = (best >> 32).to(tl.int32)
            bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
            power = tl.exp(bits.to(tl.float32, bitcast=True) - highest)
            taken = tl.where((slot == number)[None, :], which[:, None], taken)
            powers = tl.where((slot == number)[None, :], power[:, None], powers)
        if NORMED:
            under = tl.sum(powers, axis=1)
        else:
            under = tl.sum(tl.exp(scores - highest[:, None]), axis=1)
        counts = powers / under[:, None]
        if PIECES > 0:
            opened = 1.0 / (1.0 + tl.exp(-opened * factor))
            counts = tl.where((slot >= CHOSEN)[None, :], opened[:, None], counts)
        to = batch[:, None] * TAKEN + slot[None, :]
        is_slot = is_row[:, None] & (slot < TAKEN)[None, :]
        tl.store(ids + to, taken, mask=is_slot)
        tl.store(shares + to, counts, mask=is_slot)
        # Behind what the block itself has written above.
        tl.debug_barrier()
        at = places + taken * WIDTH + batch[:, None]
        tl.store(at, slot[None, :] + 0 * taken, mask=is_slot)
        is_taken = (left == -0x7FFFFFFFFFFFFFFF) & is_row[:, None]
        is_wanted = tl.max(is_taken.to(tl.int32), axis=0)
        order = tl.cumsum(is_wanted, axis=0)
        count = tl.sum(is_wanted, axis=0)
        tl.store(wanted + order, expert, mask=is_wanted > 0)
        for piece in tl.static_range(PIECES):
            tl.store(wanted + 1 + count + piece, EXPERTS + piece)
        tl.store(wanted, count + PIECES)
        tl.store(arrived, 0)

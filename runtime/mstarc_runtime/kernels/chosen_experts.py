"""Which experts the rows of a step want: the first kernel of a mixture (see `experts`).

Logits of the router, and of the gate of a block that every row takes; the block that comes last
takes the best of each row, what they count for, and lists the experts that anybody wants.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.row_squares import factors_of


@triton.jit
def choose_experts(
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
    NORMED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SPLIT: tl.constexpr,
    PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`logits` f32[SPLIT, EXPERTS + 1, WIDTH] is scratch. Gives `ids` i32[B, CHOSEN + PIECES] and
    `shares` f32 of them, `places` i32[EXPERTS + PIECES, WIDTH]: where among a row's choice an
    expert is, or -1; `wanted` i32[1 + EXPERTS + PIECES]: how many experts are, and which."""
    tile = tl.program_id(0)
    split = tl.program_id(1)
    TILES: tl.constexpr = EXPERTS // ROWS
    SPAN: tl.constexpr = W // SPLIT
    SLOTS: tl.constexpr = CHOSEN + PIECES
    own = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    batch = tl.arange(0, WIDTH)
    first = split * SPAN
    allow_next(CHAINED)
    # Behind the tiles of the router there is one of the gate, a single row.
    row = tile * ROWS + own
    matrix = router
    if tile == TILES:
        row = own * 0
        matrix = gate
    a_at = matrix + row[:, None] * W + first + columns[None, :]
    wait_for_previous(CHAINED)
    x_at = h + tl.where(batch < B, batch, 0)[None, :] * W + first + columns[:, None]
    made = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for step in tl.range(0, SPAN, COLUMNS):
        made = tl.dot(tl.load(a_at + step), tl.load(x_at + step), made)
    where = (split * (EXPERTS + 1) + tile * ROWS + own)[:, None] * WIDTH + batch[None, :]
    tl.store(logits + where, made, mask=((tile < TILES) | (own == 0))[:, None])
    tl.debug_barrier()
    if tl.atomic_add(arrived, 1, sem="acq_rel") == tl.num_programs(0) * SPLIT - 1:
        factor = factors_of(squares, parts, batch, B, W, eps, PARTS)
        expert = tl.arange(0, EXPERTS)
        at = logits + expert[None, :] * WIDTH + batch[:, None]
        scores = tl.zeros((WIDTH, EXPERTS), dtype=tl.float32)
        for other in tl.static_range(SPLIT):
            scores += tl.load(at + other * (EXPERTS + 1) * WIDTH, cache_modifier=".cg")
        scores *= factor[:, None]
        is_row = batch < B
        highest = tl.max(scores, axis=1)
        powers = tl.exp(scores - highest[:, None])
        total = tl.sum(powers, axis=1)
        place = tl.full((WIDTH, EXPERTS), -1, dtype=tl.int32)
        # A whole number of each that orders as scores do, and of equals the first before others.
        bits = scores.to(tl.int32, bitcast=True)
        bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        left = (bits.to(tl.int64) << 32) + (EXPERTS - 1 - expert)[None, :].to(tl.int64)
        sum_of_best = tl.zeros((WIDTH,), dtype=tl.float32)
        for number in tl.static_range(CHOSEN):
            best = tl.max(left, axis=1)
            which = (EXPERTS - 1 - (best & 0x7FFFFFFF)).to(tl.int32)
            is_it = expert[None, :] == which[:, None]
            place = tl.where(is_it, number, place)
            left = tl.where(is_it, -0x7FFFFFFFFFFFFFFF, left)
            best_bits = (best >> 32).to(tl.int32)
            best_bits = best_bits ^ ((best_bits >> 31) & 0x7FFFFFFF)
            power = tl.exp(best_bits.to(tl.float32, bitcast=True) - highest)
            sum_of_best += power
            tl.store(ids + batch * SLOTS + number, which, mask=is_row)
            tl.store(shares + batch * SLOTS + number, power, mask=is_row)
        under = sum_of_best if NORMED else total
        tl.debug_barrier()
        for number in tl.static_range(CHOSEN):
            share = tl.load(shares + batch * SLOTS + number, mask=is_row, other=0.0)
            tl.store(shares + batch * SLOTS + number, share / under, mask=is_row)
        if PIECES > 0:
            open_by = tl.zeros((WIDTH,), dtype=tl.float32)
            for other in tl.static_range(SPLIT):
                at_gate = (other * (EXPERTS + 1) + EXPERTS) * WIDTH + batch
                open_by += tl.load(logits + at_gate, cache_modifier=".cg")
            opened = 1.0 / (1.0 + tl.exp(-open_by * factor))
            for piece in tl.static_range(PIECES):
                tl.store(ids + batch * SLOTS + CHOSEN + piece, EXPERTS + piece, mask=is_row)
                tl.store(shares + batch * SLOTS + CHOSEN + piece, opened, mask=is_row)
        place = tl.where(is_row[:, None], place, -1)
        tl.store(places + expert[None, :] * WIDTH + batch[:, None], place)
        is_wanted = tl.max(place, axis=0) >= 0
        order = tl.cumsum(is_wanted.to(tl.int32), axis=0)
        count = tl.sum(is_wanted.to(tl.int32), axis=0)
        tl.store(wanted + order, expert, mask=is_wanted)
        for piece in tl.static_range(PIECES):
            tl.store(wanted + 1 + count + piece, EXPERTS + piece)
            always = tl.where(is_row, CHOSEN + piece, -1)
            tl.store(places + (EXPERTS + piece) * WIDTH + batch, always)
        tl.store(wanted, count + PIECES)
        tl.store(arrived, 0)

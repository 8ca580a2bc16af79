"""A mixture's three kernels where there is one row (see `experts`): columns are added as vectors.

    choose    the experts' scores, no more
    enter     each block takes the best of them itself, by the same rule, down to its own slot; the
              first block leaves all of them, and what they count for, to `leave`
    leave     a block has some outputs of all slots

So no block of `choose` waits for another. `enter` lets its successor start when its own predecessor
is through and the choice is written: `leave` knows it when it starts, and asks for the weights of
the chosen while `enter` still adds.

The best are taken one by one: the greatest score, of equals the first expert, as for several rows
(`chosen_experts`). Every warp of a block does it for itself, so that none waits for another.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, show_all, wait_for_previous
from mstarc_runtime.kernels.experts import block_of

TAKEN = tl.constexpr(-0x80000000)


@triton.jit
def choose_one(
    h,
    squares,
    parts,
    router,
    gate,
    scores,
    eps,
    W: tl.constexpr,
    EXPERTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`scores` f32[EXPERTS + 2]: the router's, the gate's of a block that every row takes, and
    1 / RMS of the row."""
    tile = tl.program_id(0)
    own = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    allow_next(CHAINED)
    # Behind the tiles of the router there is one of the gate, a single row.
    row = own
    matrix = router
    if tile * ROWS == EXPERTS:
        row = own * 0
        matrix = gate
    at = matrix + row[:, None] * W + columns[None, :]
    a = tl.load(at)
    wait_for_previous(CHAINED)
    part = tl.arange(0, PARTS)
    squared = tl.load(squares + part, mask=part < parts, other=0.0)
    x = tl.load(h + columns).to(tl.float32)
    sums = a.to(tl.float32) * x[None, :]
    for first in tl.static_range(COLUMNS, W, COLUMNS):
        x = tl.load(h + first + columns).to(tl.float32)
        sums += tl.load(at + first).to(tl.float32) * x[None, :]
    product = tl.sum(sums, axis=1)
    factor = tl.rsqrt(tl.sum(squared, axis=0) / W + eps)
    tl.store(scores + own, product * factor, mask=own <= EXPERTS)
    if tile == 0:
        tl.store(scores + EXPERTS + 1, factor)


@triton.jit
def _keys_of(scores, EXPERTS: tl.constexpr, WARPS: tl.constexpr):
    """A whole number of each score that orders as scores do, the same for each warp:
    i32[WARPS, EXPERTS]."""
    at = scores + tl.arange(0, EXPERTS)[None, :] + tl.zeros((WARPS, 1), dtype=tl.int32)
    bits = tl.load(at, cache_modifier=".cg").to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _score_of(key):
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _best_of(keys, EXPERTS: tl.constexpr):
    """(greatest key, its first expert, what is left) of each warp."""
    expert = tl.arange(0, EXPERTS)[None, :]
    best = tl.max(keys, axis=1)
    which = tl.min(tl.where(keys == best[:, None], expert, EXPERTS - 1), axis=1)
    return best, which, tl.where(expert == which[:, None], TAKEN, keys)


@triton.jit
def _chosen(
    scores,
    EXPERTS: tl.constexpr,
    CHOSEN: tl.constexpr,
    PIECES: tl.constexpr,
    SLOTS: tl.constexpr,
    NORMED: tl.constexpr,
    WARPS: tl.constexpr,
):
    """(experts i32[SLOTS], what they count for f32[SLOTS]) of a row."""
    slot = tl.arange(0, SLOTS)[None, :]
    keys = _keys_of(scores, EXPERTS, WARPS)
    experts = tl.zeros((WARPS, SLOTS), dtype=tl.int32) + (EXPERTS - CHOSEN + slot)
    powers = tl.zeros((WARPS, SLOTS), dtype=tl.float32)
    under = tl.zeros((WARPS,), dtype=tl.float32)
    highest = _score_of(tl.max(keys, axis=1))
    if not NORMED:
        under = tl.sum(tl.exp(_score_of(keys) - highest[:, None]), axis=1)
    for number in tl.static_range(CHOSEN):
        best, which, keys = _best_of(keys, EXPERTS)
        power = tl.exp(_score_of(best) - highest)
        if NORMED:
            under += power
        experts = tl.where(slot == number, which[:, None], experts)
        powers = tl.where(slot == number, power[:, None], powers)
    shares = powers / under[:, None]
    if PIECES > 0:
        open_by = tl.load(scores + EXPERTS)
        shares = tl.where(slot >= CHOSEN, 1.0 / (1.0 + tl.exp(-open_by)), shares)
    is_slot = slot < CHOSEN + PIECES
    # All warps have the same.
    experts = tl.max(tl.where(is_slot, experts, 0), axis=0)
    return experts, tl.max(tl.where(is_slot, shares, 0.0), axis=0)


@triton.jit
def enter_one(
    h,
    gate_up,
    shared,
    scores,
    ids,
    shares,
    act,
    W: tl.constexpr,
    INNER: tl.constexpr,
    EXPERTS: tl.constexpr,
    CHOSEN: tl.constexpr,
    PIECES: tl.constexpr,
    SLOTS: tl.constexpr,
    NORMED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WARPS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`ids` i32[CHOSEN + PIECES] and `shares` f32 of them; `act` [CHOSEN + PIECES, INNER]."""
    tile = tl.program_id(0)
    slot = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    wait_for_previous(CHAINED)
    if (tile == 0) & (slot == 0):
        number = tl.arange(0, SLOTS)
        is_slot = number < CHOSEN + PIECES
        every, counts = _chosen(scores, EXPERTS, CHOSEN, PIECES, SLOTS, NORMED, WARPS)
        tl.store(ids + number, every, mask=is_slot)
        tl.store(shares + number, counts, mask=is_slot)
        show_all(CHAINED)
    # Not before: `leave` starts when all blocks are here.
    allow_next(CHAINED)
    factor = tl.load(scores + EXPERTS + 1)
    keys = _keys_of(scores, EXPERTS, WARPS)
    expert = EXPERTS - CHOSEN + slot
    if slot < CHOSEN:
        which = tl.zeros((WARPS,), dtype=tl.int32)
        for _ in range(slot + 1):
            _best, which, keys = _best_of(keys, EXPERTS)
        expert = tl.max(which, axis=0)
    matrix, _, apart = block_of(
        expert, gate_up, shared, 2 * INNER * W, W, INNER * W, INNER * W, W,
        PIECES * INNER * W, EXPERTS, PIECES,
    )  # fmt: skip
    at = matrix + rows[:, None] * W + columns[None, :]
    gates = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    ups = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in tl.static_range(0, W, COLUMNS):
        a = tl.load(at + first, eviction_policy="evict_first")
        b = tl.load(at + apart + first, eviction_policy="evict_first")
        x = tl.load(h + first + columns).to(tl.float32)[None, :]
        gates += a.to(tl.float32) * x
        ups += b.to(tl.float32) * x
    g = tl.sum(gates, axis=1) * factor
    u = tl.sum(ups, axis=1) * factor
    made = g / (1.0 + tl.exp(-g)) * u
    tl.store(act + slot * INNER + rows, made.to(act.dtype.element_ty))


@triton.jit
def leave_one(
    act,
    down,
    shared,
    ids,
    shares,
    residual,
    gain,
    h,
    squares_out,
    W: tl.constexpr,
    INNER: tl.constexpr,
    EXPERTS: tl.constexpr,
    CHOSEN: tl.constexpr,
    PIECES: tl.constexpr,
    SLOTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    tile = tl.program_id(0)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    # All that a row has chosen side by side: [ROWS, SLOTS, COLUMNS].
    slot = tl.arange(0, SLOTS)
    is_slot = slot < CHOSEN + PIECES
    allow_next(CHAINED)
    # Past the own cache, which may hold those of the layer before.
    expert = tl.load(ids + slot, mask=is_slot, other=0, cache_modifier=".cg").to(tl.int64)
    share = tl.load(shares + slot, mask=is_slot, other=0.0, cache_modifier=".cg")
    at = down + expert[None, :] * (W * INNER) + rows[:, None] * INNER
    if PIECES > 0:
        piece = shared + (expert[None, :] - EXPERTS) * INNER + rows[:, None] * (PIECES * INNER)
        at = tl.where((expert >= EXPERTS)[None, :], piece, at)
    x_at = act + slot[:, None] * INNER + columns[None, :]
    at = at[:, :, None] + columns[None, None, :]
    # Most or all of the block's weights come while the kernel before ends.
    a = tl.load(at, eviction_policy="evict_first")
    if INNER > COLUMNS:
        b = tl.load(at + COLUMNS, eviction_policy="evict_first")
    if INNER > 2 * COLUMNS:
        c = tl.load(at + 2 * COLUMNS, eviction_policy="evict_first")
    before = tl.load(residual + rows, cache_modifier=".cg")
    gains = tl.load(gain + rows).to(tl.float32)
    wait_for_previous(CHAINED)
    x = tl.load(x_at, mask=is_slot[:, None], other=0.0).to(tl.float32)
    sums = a.to(tl.float32) * (x * share[:, None])[None, :, :]
    if INNER > COLUMNS:
        x = tl.load(x_at + COLUMNS, mask=is_slot[:, None], other=0.0).to(tl.float32)
        sums += b.to(tl.float32) * (x * share[:, None])[None, :, :]
    if INNER > 2 * COLUMNS:
        x = tl.load(x_at + 2 * COLUMNS, mask=is_slot[:, None], other=0.0).to(tl.float32)
        sums += c.to(tl.float32) * (x * share[:, None])[None, :, :]
    for first in tl.static_range(3 * COLUMNS, INNER, COLUMNS):
        a = tl.load(at + first, eviction_policy="evict_first")
        x = tl.load(x_at + first, mask=is_slot[:, None], other=0.0).to(tl.float32)
        sums += a.to(tl.float32) * (x * share[:, None])[None, :, :]
    product = tl.sum(tl.sum(sums, axis=2), axis=1) + before
    tl.store(residual + rows, product)
    scaled = product * gains
    tl.store(h + rows, scaled.to(h.dtype.element_ty))
    tl.store(squares_out + tile, tl.sum(product * product, axis=0))

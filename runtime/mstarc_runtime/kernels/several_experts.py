"""The experts of two to four rows: a mixture's second and third kernel without the tensor cores.

Of so few rows hardly two want the same expert, so there is nothing for a matrix unit to share. As
in `experts`' kernels for one row, weights are taken whole into registers:

    enter     a block holds some rows of an expert, read once, for each row that chose it
    leave     a block makes some outputs of a row: of all that it chose, added in its order

So nothing meets in memory behind `enter`, and a row's numbers are the same whoever is beside it.
What comes in and goes out is in `experts`' text; numbers travel by fours as in `several_rows`.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.experts import block_of
from mstarc_runtime.kernels.row_squares import factors_of
from mstarc_runtime.kernels.several_rows import four


@triton.jit
def enter_several(
    h,
    squares,
    parts,
    gate_up,
    shared,
    places,
    wanted,
    act,
    eps,
    B: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    INNER: tl.constexpr,
    EXPERTS: tl.constexpr,
    SLOTS: tl.constexpr,
    PIECES: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`act` [B, SLOTS, INNER]; `h`, `gate_up` and `shared` by fours."""
    tile = tl.program_id(0)
    number = tl.program_id(1)
    FOURTH: tl.constexpr = W // 4
    PASS: tl.constexpr = COLUMNS // 4
    # Gate and up of an output stand side by side.
    both = tl.arange(0, 2 * ROWS)
    columns = tl.arange(0, PASS)[None, :]
    batch = tl.arange(0, 4)
    wait_for_previous(CHAINED)
    # Not before: who starts now may read the choice.
    allow_next(CHAINED)
    count = tl.load(wanted)
    # Behind the last one stands what was wanted earlier, if anything.
    expert = tl.load(wanted + 1 + number)
    if number < count:
        matrix, _, apart = block_of(
            expert, gate_up, shared, 2 * INNER * FOURTH, FOURTH, INNER, INNER * FOURTH, FOURTH,
            PIECES * INNER, EXPERTS, PIECES,
        )  # fmt: skip
        own = tile * ROWS + both // 2 + (both % 2) * apart
        at = matrix + own[:, None] * FOURTH + columns
        held = ()
        for first in tl.static_range(0, FOURTH, PASS):
            ones = tl.load(at + first, eviction_policy="evict_first")
            held += (ones,)  # type: ignore[assignment]  # it grows while this is unrolled
        factors = factors_of(squares, parts, batch, B, W, eps, PARTS)
        for row in tl.static_range(B):
            place = tl.load(places + expert * WIDTH + row)
            if place >= 0:
                sums = tl.zeros(at.shape, dtype=tl.float32)
                for turn in tl.static_range(FOURTH // PASS):
                    x0, x1, x2, x3 = four(tl.load(h + row * FOURTH + turn * PASS + columns))
                    w0, w1, w2, w3 = four(held[turn])
                    sums = sums + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
                factor = tl.sum(tl.where(batch == row, factors, 0.0), axis=0)
                gates, ups = tl.split(tl.reshape(tl.sum(sums, axis=1) * factor, (ROWS, 2)))
                made = gates / (1.0 + tl.exp(-gates)) * ups
                to = act + (row * SLOTS + place) * INNER + tile * ROWS + tl.arange(0, ROWS)
                tl.store(to, made.to(act.dtype.element_ty))


@triton.jit
def leave_several(
    act,
    down,
    shared,
    ids,
    shares,
    residual,
    gain,
    h,
    squares_out,
    B: tl.constexpr,
    W: tl.constexpr,
    INNER: tl.constexpr,
    EXPERTS: tl.constexpr,
    CHOSEN: tl.constexpr,
    PIECES: tl.constexpr,
    SLOTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    HELD: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """A block makes `ROWS` outputs of a row; `act`, `down` and `shared` by fours. `HELD` passes of
    the weights come while `enter` ends: it lets nobody start before the choice is made."""
    row = tl.program_id(0)
    tile = tl.program_id(1)
    FOURTH: tl.constexpr = INNER // 4
    PASS: tl.constexpr = COLUMNS // 4
    PASSES: tl.constexpr = INNER // COLUMNS
    TAKEN: tl.constexpr = CHOSEN + PIECES
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, PASS)[None, None, :]
    slot = tl.arange(0, SLOTS)
    is_slot = slot < TAKEN
    to = row * W + rows
    allow_next(CHAINED)
    # From the cache of all: a block of the layer before may have left its own.
    given = row * TAKEN + slot
    expert = tl.load(ids + given, mask=is_slot, other=0, cache_modifier=".cg").to(tl.int64)
    share = tl.load(shares + given, mask=is_slot, other=0.0, cache_modifier=".cg")
    before = tl.load(residual + to, cache_modifier=".cg")
    gains = tl.load(gain + rows).to(tl.float32)
    # All that a row has chosen side by side: [SLOTS, ROWS, PASS].
    at = down + expert[:, None] * (W * FOURTH) + rows[None, :] * FOURTH
    if PIECES > 0:
        piece = shared + (expert[:, None] - EXPERTS) * FOURTH + rows[None, :] * PIECES * FOURTH
        at = tl.where((expert >= EXPERTS)[:, None], piece, at)
    at = at[:, :, None] + columns
    is_read = is_slot[:, None, None]
    held = ()
    for number in tl.static_range(HELD):
        ones = tl.load(at + number * PASS, mask=is_read, other=0, eviction_policy="evict_first")
        held += (ones,)  # type: ignore[assignment]  # it grows while this is unrolled
    wait_for_previous(CHAINED)
    x_at = act + given[:, None, None] * FOURTH + columns
    sums = tl.zeros((SLOTS, ROWS, PASS), dtype=tl.float32)
    for number in tl.static_range(PASSES):
        if number < HELD:
            weights = four(held[number])
        else:
            weights = four(
                tl.load(at + number * PASS, mask=is_read, other=0, eviction_policy="evict_first")
            )
        x0, x1, x2, x3 = four(tl.load(x_at + number * PASS, mask=is_read, other=0))
        w0, w1, w2, w3 = weights
        sums = sums + w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3
    product = tl.sum(tl.sum(sums, axis=2) * share[:, None], axis=0) + before
    tl.store(residual + to, product)
    tl.store(h + to, (product * gains).to(h.dtype.element_ty))
    tl.store(squares_out + tile * B + row, tl.sum(product * product, axis=0))

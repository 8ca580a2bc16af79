"""A mixture of experts for a few rows: only the blocks that rows have chosen are read, each once.

`h` bf16[B, W] are rows before their RMS norm, as in `skinny`: they carry its gain, and `squares`
f32[P, B] the parts of their sums of squares. Three kernels:

    choose    which experts the rows want, and what each counts for (`chosen_experts`)
    enter     silu(gate) * up of every wanted expert for the rows that chose it
    leave     down of the same; the block that comes last at some outputs adds a row's experts in
              their order, and does what `skinny`'s RESIDUAL does

A block that every row takes beside the experts is cut into pieces of an expert's size (its inside
is a multiple of one): they come behind the experts, always chosen, for the sigmoid of their gate.

One row: `one_row_experts`. More rows: the tensor cores, all rows of the bucket at a time, those
that chose another expert being zero. So a row's numbers depend on the bucket alone. The choice of
two to four rows: `several_choices`.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.row_squares import factors_of, leave_rows


@triton.jit
def block_of(
    expert, matrices, shared, size, wide, apart, shift, shared_wide, shared_apart,
    EXPERTS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """(matrix, how far apart its rows, how far its second half) of an expert or, behind them, of a
    piece of the block that every row takes: `size` numbers an expert, `shift` a piece."""
    matrix = matrices + expert.to(tl.int64) * size
    width, half = expert * 0 + wide, expert * 0 + apart
    if PIECES > 0:  # noqa: SIM102 - the one is known when this is compiled
        if expert >= EXPERTS:
            matrix = shared + (expert - EXPERTS).to(tl.int64) * shift
            width = expert * 0 + shared_wide
            half = expert * 0 + shared_apart
    return matrix, width, half


@triton.jit
def enter_few(
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
    STAGES: tl.constexpr,
    PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`act` [B, SLOTS, INNER]."""
    tile = tl.program_id(0)
    number = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    batch = tl.arange(0, WIDTH)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    if number < tl.load(wanted):
        expert = tl.load(wanted + 1 + number)
        place = tl.load(places + expert * WIDTH + batch)
        has = place >= 0
        matrix, _, apart = block_of(
            expert, gate_up, shared, 2 * INNER * W, W, INNER * W, INNER * W, W,
            PIECES * INNER * W, EXPERTS, PIECES,
        )  # fmt: skip
        a_at = matrix + rows[:, None] * W + columns[None, :]
        x_at = h + batch[None, :] * W + columns[:, None]
        gates = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
        ups = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
        for step in tl.range(0, W, COLUMNS, num_stages=STAGES):
            x = tl.load(x_at + step, mask=has[None, :], other=0.0)
            a = tl.load(a_at + step, eviction_policy="evict_first")
            b = tl.load(a_at + apart + step, eviction_policy="evict_first")
            gates = tl.dot(a, x, gates)
            ups = tl.dot(b, x, ups)
        factor = factors_of(squares, parts, batch, B, W, eps, PARTS)[None, :]
        gates *= factor
        made = gates / (1.0 + tl.exp(-gates)) * (ups * factor)
        to = act + (batch * SLOTS + place)[None, :] * INNER + rows[:, None]
        tl.store(to, made.to(act.dtype.element_ty), mask=has[None, :])


@triton.jit
def leave_few(
    act,
    down,
    shared,
    places,
    wanted,
    shares,
    made,
    arrived,
    residual,
    gain,
    h,
    squares_out,
    B: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    INNER: tl.constexpr,
    EXPERTS: tl.constexpr,
    SLOTS: tl.constexpr,
    PIECES: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`made` f32[B, SLOTS, W] is scratch; each of its numbers is written by one block."""
    tile = tl.program_id(0)
    number = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    batch = tl.arange(0, WIDTH)
    is_row = batch < B
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    count = tl.load(wanted)
    if number < count:
        expert = tl.load(wanted + 1 + number)
        place = tl.load(places + expert * WIDTH + batch)
        has = place >= 0
        matrix, across, _ = block_of(
            expert, down, shared, W * INNER, INNER, 0, INNER, PIECES * INNER, 0, EXPERTS, PIECES,
        )  # fmt: skip
        a_at = matrix + rows[:, None] * across + columns[None, :]
        x_at = act + (batch * SLOTS + place)[None, :] * INNER + columns[:, None]
        sums = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
        for step in tl.range(0, INNER, COLUMNS, num_stages=STAGES):
            x = tl.load(x_at + step, mask=has[None, :], other=0.0)
            sums = tl.dot(tl.load(a_at + step, eviction_policy="evict_first"), x, sums)
        own = made + (batch * SLOTS + place)[None, :] * W + rows[:, None]
        tl.store(own, sums, mask=has[None, :])
        tl.debug_barrier()
        if tl.atomic_add(arrived + tile, 1, sem="acq_rel") == count - 1:
            where = is_row[None, :]
            to = batch[None, :] * W + rows[:, None]
            total = tl.load(residual + to, mask=where, other=0.0)
            for slot in tl.static_range(SLOTS):
                share = tl.load(shares + batch * SLOTS + slot, mask=is_row, other=0.0)
                at = made + (batch * SLOTS + slot)[None, :] * W + rows[:, None]
                total += share[None, :] * tl.load(at, mask=where, other=0.0, cache_modifier=".cg")
            gains = tl.load(gain + rows).to(tl.float32)
            leave_rows(total, gains, residual, h, squares_out, tile, batch, to, where, B)
            tl.store(arrived + tile, 0)

"""Products of a layer whose norms a time decides, for few rows: norms, turns and gates are part of
them.

Rows `h` bf16[M, W] come before their norm: each times what the norm scales it by. The factor that
is the row's own, 1 / rms, goes onto the product, which is the same number; `squares` f32[P, M] are
parts of the rows' sums of squares. What a norm moves rows by passes the same product as rows of its
own: row R + b of `h` is that of request b. So M is at least R + B, a power of two.

    into_rows        rows f32[R, A] -> rows [R, W] of them, h, squares
    project_heads    h -> turned queries [R, Hq, D], and keys and values in the cache's pages
    gate_rows        h -> gelu(first) * second, [M, I]
    residual_rows    rows += gate * (a @ weight); h, squares of the norm behind them
    back_rows        h -> f32[R, A]

What plain torch keeps is rounded as there. A kernel starts while the one before it ends (see
`dependent`). Weights are read once; a block takes all rows.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous


@triton.jit
def _expect(weight, unit, first, K: tl.constexpr, SPAN: tl.constexpr, CHAINED: tl.constexpr):
    """Brings columns of a block's weights nearer while the kernel before still runs: nobody writes
    them. A line of the cache has 64 numbers."""
    if CHAINED:
        line = first + tl.arange(0, (SPAN + 63) // 64) * 64
        at = weight + unit.to(tl.int64)[:, None] * K + line[None, :]
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
            "=r,l",
            [at.to(tl.int64)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


@triton.jit
def _squares(squares, parts, M: tl.constexpr, PARTS: tl.constexpr):
    """The parts of all rows' sums of squares, f32[PARTS, M]."""
    part = tl.arange(0, PARTS)
    at = squares + part[:, None] * M + tl.arange(0, M)[None, :]
    return tl.load(at, mask=(part < parts)[:, None], other=0.0)


@triton.jit
def _normed(
    product, squared, eps, row,
    R: tl.constexpr, B: tl.constexpr, EACH: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The product of normed rows, of that of rows before their norm."""
    factors = tl.rsqrt(tl.sum(squared, axis=0) / K + eps)
    moved = tl.zeros_like(product)
    for b in tl.static_range(B):
        own = tl.sum(tl.where((row == R + b)[:, None], product, 0.0), axis=0)
        moved = tl.where((row // EACH == b)[:, None], own[None, :], moved)
    return product * factors[:, None] + moved


@triton.jit
def into_rows(
    given, weight, bias, x, scale, shift, h, squares, given_stride, N,
    R: tl.constexpr, B: tl.constexpr, EACH: tl.constexpr, K: tl.constexpr, M: tl.constexpr,
    ROWS: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """A block: some rows of `weight` [N, K], of few columns."""
    unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.arange(0, M)
    column = tl.arange(0, K)
    there = (row < R)[:, None]
    allow_next(CHAINED)
    w = tl.load(weight + unit[None, :] * K + column[:, None])
    more = tl.load(bias + unit).to(tl.float32)
    wait_for_previous(CHAINED)
    numbers = tl.load(given + row[:, None] * K + column[None, :], mask=there, other=0.0)
    request = tl.where(row < R, row // EACH, tl.minimum(tl.maximum(row - R, 0), B - 1))
    at_time = request[:, None] * given_stride + unit[None, :]
    scales = tl.load(scale + at_time).to(tl.float32)
    moves = tl.load(shift + at_time)
    kind = x.dtype.element_ty
    made = (tl.dot(numbers.to(kind), w) + more[None, :]).to(kind)
    at = row[:, None] * N + unit[None, :]
    tl.store(x + at, made, mask=there)
    wide = made.to(tl.float32)
    before_norm = tl.where(there, (wide * (1.0 + scales)).to(kind), moves.to(kind))
    tl.store(h + at, before_norm, mask=(row < R + B)[:, None])
    own_squares = tl.sum(tl.where(there, wide * wide, 0.0), axis=1)
    tl.store(squares + tl.program_id(0) * M + row, own_squares, mask=row < R)


@triton.jit
def project_heads(
    h, squares, weight, cosines, sines, pages, lengths, q, keys, values,
    parts, page_stride, eps,
    R: tl.constexpr, B: tl.constexpr, EACH: tl.constexpr, K: tl.constexpr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    M: tl.constexpr, PAIRS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
    PARTS: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """A block: some numbers of a head, and those half a head away that they are turned with."""
    HALF: tl.constexpr = D // 2
    head = tl.program_id(0) // (HALF // PAIRS)
    pair = tl.program_id(0) % (HALF // PAIRS) * PAIRS + tl.arange(0, PAIRS)
    row = tl.arange(0, M)
    column = tl.arange(0, COLUMNS)
    x_at = h + row[:, None] * K + column[None, :]
    w_at = weight + (head * D + pair).to(tl.int64)[None, :] * K + column[:, None]
    one = tl.zeros((M, PAIRS), dtype=tl.float32)
    two = tl.zeros((M, PAIRS), dtype=tl.float32)
    allow_next(CHAINED)
    _expect(weight, head * D + pair, 0, K, K, CHAINED)
    _expect(weight, head * D + HALF + pair, 0, K, K, CHAINED)
    wait_for_previous(CHAINED)
    # What is needed behind the loop is asked for before it.
    squared = _squares(squares, parts, M, PARTS)
    there = (row < R)[:, None]
    by = row[:, None] * D + pair[None, :]
    cosine = tl.load(cosines + by, mask=there, other=0.0)
    sine = tl.load(sines + by, mask=there, other=0.0)
    # The rows follow those that were there before the call, in their request's pages.
    request = row // EACH
    number = tl.load(lengths + request, mask=row < R, other=EACH) - EACH + row % EACH
    page = tl.load(pages + request * page_stride + number // PAGE, mask=row < R, other=0)
    for step in tl.range(0, K, COLUMNS, num_stages=STAGES):
        x = tl.load(x_at + step)
        a = tl.load(w_at + step, eviction_policy="evict_first")
        b = tl.load(w_at + HALF * K + step, eviction_policy="evict_first")
        one = tl.dot(x, a, one)
        two = tl.dot(x, b, two)
    kind = q.dtype.element_ty
    one = _normed(one, squared, eps, row, R, B, EACH, K).to(kind).to(tl.float32)
    two = _normed(two, squared, eps, row, R, B, EACH, K).to(kind).to(tl.float32)
    if head < HEADS + KV_HEADS:
        # Both numbers of a pair are turned by one angle.
        turned = one * cosine - two * sine
        two = two * cosine + one * sine
        one = turned
    if head < HEADS:
        to = q + row[:, None] * HEADS * D + head * D + pair[None, :]
        tl.store(to, one.to(kind), mask=there)
        tl.store(to + HALF, two.to(kind), mask=there)
    else:
        own = (page.to(tl.int64) * PAGE + number % PAGE)[:, None] * KV_HEADS * D + pair[None, :]
        if head < HEADS + KV_HEADS:
            own += (head - HEADS) * D
            tl.store(keys + own, one.to(kind), mask=there)
            tl.store(keys + own + HALF, two.to(kind), mask=there)
        else:
            own += (head - HEADS - KV_HEADS) * D
            tl.store(values + own, one.to(kind), mask=there)
            tl.store(values + own + HALF, two.to(kind), mask=there)


@triton.jit
def gate_rows(
    h, squares, weight, out, parts, N, eps,
    R: tl.constexpr, B: tl.constexpr, EACH: tl.constexpr, K: tl.constexpr, M: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    """A block: some rows of the first half of `weight` [2 N, K], and of the second."""
    unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.arange(0, M)
    column = tl.arange(0, COLUMNS)
    x_at = h + row[:, None] * K + column[None, :]
    w_at = weight + unit.to(tl.int64)[None, :] * K + column[:, None]
    half = N.to(tl.int64) * K
    gate = tl.zeros((M, ROWS), dtype=tl.float32)
    up = tl.zeros((M, ROWS), dtype=tl.float32)
    allow_next(CHAINED)
    _expect(weight, unit, 0, K, K, CHAINED)
    _expect(weight, N + unit, 0, K, K, CHAINED)
    wait_for_previous(CHAINED)
    squared = _squares(squares, parts, M, PARTS)
    for step in tl.range(0, K, COLUMNS, num_stages=STAGES):
        x = tl.load(x_at + step)
        a = tl.load(w_at + step, eviction_policy="evict_first")
        b = tl.load(w_at + half + step, eviction_policy="evict_first")
        gate = tl.dot(x, a, gate)
        up = tl.dot(x, b, up)
    kind = out.dtype.element_ty
    g = _normed(gate, squared, eps, row, R, B, EACH, K).to(kind).to(tl.float32)
    u = _normed(up, squared, eps, row, R, B, EACH, K).to(kind).to(tl.float32)
    # gelu(x) by tanh: x times the logistic function of twice what tanh is given.
    inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    act = (g / (1.0 + tl.exp(-2.0 * inner))).to(kind).to(tl.float32)
    tl.store(out + row[:, None] * N + unit[None, :], (act * u).to(kind), mask=(row < R)[:, None])


@triton.jit
def residual_rows(
    a, weight, x, gate, scale, shift, h, squares, partial, arrived,
    gate_stride, given_stride, N,
    R: tl.constexpr, B: tl.constexpr, EACH: tl.constexpr, K: tl.constexpr, M: tl.constexpr,
    SPLIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    """A block: some rows of `weight` [N, K] and a part of their columns; the last adds up."""
    tile = tl.program_id(0)
    split = tl.program_id(1)
    SPAN: tl.constexpr = K // SPLIT
    unit = tile * ROWS + tl.arange(0, ROWS)
    row = tl.arange(0, M)
    column = split * SPAN + tl.arange(0, COLUMNS)
    there = (row < R)[:, None]
    # Nobody reads what becomes of other rows than these.
    a_at = a + tl.where(row < R, row, 0)[:, None] * K + column[None, :]
    w_at = weight + unit.to(tl.int64)[None, :] * K + column[:, None]
    product = tl.zeros((M, ROWS), dtype=tl.float32)
    allow_next(CHAINED)
    _expect(weight, unit, split * SPAN, K, SPAN, CHAINED)
    wait_for_previous(CHAINED)
    # What is needed behind the loop is asked for before it.
    at = row[:, None] * N + unit[None, :]
    request = tl.where(row < R, row // EACH, tl.minimum(tl.maximum(row - R, 0), B - 1))
    given = request[:, None] * given_stride + unit[None, :]
    before = tl.load(x + at, mask=there, other=0.0)
    by = tl.load(gate + request[:, None] * gate_stride + unit[None, :])
    scales = tl.load(scale + given)
    moves = tl.load(shift + given)
    for step in tl.range(0, SPAN, COLUMNS, num_stages=STAGES):
        rows = tl.load(a_at + step)
        w = tl.load(w_at + step, eviction_policy="evict_first")
        product = tl.dot(rows, w, product)
    is_last = True
    if SPLIT > 1:
        own = tl.arange(0, ROWS)[None, :] + row[:, None] * ROWS
        base = partial + tile * SPLIT * M * ROWS
        tl.store(base + split * M * ROWS + own, product)
        tl.debug_barrier()
        is_last = tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLIT - 1
    if is_last:
        if SPLIT > 1:
            product = tl.load(base + own, cache_modifier=".cg")
            for other in tl.static_range(1, SPLIT):
                product += tl.load(base + other * M * ROWS + own, cache_modifier=".cg")
            tl.store(arrived + tile, 0)
        kind = x.dtype.element_ty
        more = (product.to(kind).to(tl.float32) * by.to(tl.float32)).to(kind).to(tl.float32)
        total = (before.to(tl.float32) + more).to(kind)
        tl.store(x + at, total, mask=there)
        wide = total.to(tl.float32)
        made = (wide * (1.0 + scales.to(tl.float32))).to(kind)
        made = tl.where(there, made, moves.to(kind))
        tl.store(h + at, made, mask=(row < R + B)[:, None])
        own_squares = tl.sum(tl.where(there, wide * wide, 0.0), axis=1)
        tl.store(squares + tile * M + row, own_squares, mask=row < R)


@triton.jit
def back_rows(
    h, squares, weight, bias, out, parts, N, eps,
    R: tl.constexpr, B: tl.constexpr, EACH: tl.constexpr, K: tl.constexpr, M: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    """A block: some rows of `weight` [N, K]."""
    unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.arange(0, M)
    column = tl.arange(0, COLUMNS)
    x_at = h + row[:, None] * K + column[None, :]
    w_at = weight + unit[None, :] * K + column[:, None]
    product = tl.zeros((M, ROWS), dtype=tl.float32)
    allow_next(CHAINED)
    _expect(weight, unit, 0, K, K, CHAINED)
    wait_for_previous(CHAINED)
    squared = _squares(squares, parts, M, PARTS)
    for step in tl.range(0, K, COLUMNS, num_stages=STAGES):
        product = tl.dot(tl.load(x_at + step), tl.load(w_at + step), product)
    made = _normed(product, squared, eps, row, R, B, EACH, K)
    made += tl.load(bias + unit).to(tl.float32)[None, :]
    at = out + row[:, None] * N + unit[None, :]
    tl.store(at, made.to(weight.dtype.element_ty).to(tl.float32), mask=(row < R)[:, None])

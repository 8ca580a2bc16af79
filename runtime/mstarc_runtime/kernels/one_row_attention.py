"""Attention of a single new row over its pages: `decode_attention` where one request runs alone.

The same numbers are made in the same way. What differs is what a block waits for: all that no
kernel of the step makes is asked for before the predecessor is through, parts that have no rows do
nothing, and the block that joins the parts asks for all of them at once. The next kernel, which
holds its weights, begins when this one's predecessor is through: so it does not take the bus from
a product that everybody waits for.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.decode_attention import attended_rows, rows_of
from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous


@triton.jit
def _turned(
    first, second, low, high, cosine, sine, eps, qkv, H: tl.constexpr, NORMED: tl.constexpr
):
    """Both halves of heads [R, H], normed by gains `low` and `high` and turned, as `qkv` is."""
    kind = qkv.dtype.element_ty
    if NORMED:
        total = tl.sum(first * first + second * second, axis=1)[:, None]
        factor = tl.rsqrt(total / (2 * H) + eps)
        first *= factor * low
        second *= factor * high
    return (first * cosine - second * sine).to(kind), (second * cosine + first * sine).to(kind)


@triton.jit
def attend_one(
    qkv,
    cosines,
    sines,
    positions,
    lengths,
    pages,
    keys,
    values,
    sums,
    bests,
    arrived,
    out,
    q_norm,
    k_norm,
    scale,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
    QUERIES: tl.constexpr,
    STAGES: tl.constexpr,
    NORMED: tl.constexpr,
    LATE: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`sums` f32[KV_HEADS, PARTS, GROUP, D] and `bests` f32[KV_HEADS, PARTS, 2, GROUP], greatest
    scores and the weights' sums, are what parts leave."""
    head = tl.program_id(0)
    part = tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    H: tl.constexpr = D // 2
    Q: tl.constexpr = 16
    ROW: tl.constexpr = KV_HEADS * D
    half = tl.arange(0, H)
    whole = tl.arange(0, D)
    query = tl.arange(0, Q)
    is_query = query < GROUP
    old = tl.load(lengths) - 1
    if not LATE:
        position = tl.load(positions)
    # The new row is attended from registers: by the first part without rows, or by the last.
    share = tl.cdiv(tl.cdiv(old, ROWS), PARTS) * ROWS
    newest = tl.minimum(tl.cdiv(old, tl.maximum(share, 1)), PARTS - 1)
    if part <= newest:
        first = part * share
        last = tl.minimum(first + share, old)
        k_low, k_high, v = rows_of(keys, values, pages, first, last, head * D, PAGE, ROW, H, ROWS)
        page = tl.load(pages + old // PAGE)
        if not LATE:
            cosine = tl.load(cosines + position * H + half)[None, :]
            sine = tl.load(sines + position * H + half)[None, :]
        q_gain, q_gain_high, k_gain, k_gain_high = 1.0, 1.0, 1.0, 1.0
        if NORMED:
            q_gain = tl.load(q_norm + half)[None, :].to(tl.float32)
            q_gain_high = tl.load(q_norm + H + half)[None, :].to(tl.float32)
            k_gain = tl.load(k_norm + half)[None, :].to(tl.float32)
            k_gain_high = tl.load(k_norm + H + half)[None, :].to(tl.float32)
        wait_for_previous(CHAINED)
        allow_next(CHAINED)
        if LATE:
            # A kernel of this step has computed where the row stands.
            position = tl.load(positions)
            cosine = tl.load(cosines + position * H + half)[None, :]
            sine = tl.load(sines + position * H + half)[None, :]
        q_at = qkv + (head * GROUP + query)[:, None] * D + half[None, :]
        q_first = tl.load(q_at, mask=is_query[:, None], other=0.0).to(tl.float32)
        q_second = tl.load(q_at + H, mask=is_query[:, None], other=0.0).to(tl.float32)
        k_at = qkv + (HEADS + head) * D + half[None, :]
        k_first = tl.load(k_at).to(tl.float32)
        k_second = tl.load(k_at + H).to(tl.float32)
        new_v = tl.load(qkv + (HEADS + KV_HEADS + head) * D + whole)
        q_low, q_high = _turned(
            q_first, q_second, q_gain, q_gain_high, cosine, sine, eps, qkv, H, NORMED
        )
        best = tl.full((Q,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((Q,), dtype=tl.float32)
        seen = tl.zeros((Q, D), dtype=tl.float32)
        if first < last:
            best, total, seen = attended_rows(
                q_low, q_high, k_low, k_high, v, first, last, scale, best, total, seen, ROWS
            )
        for start in tl.range(first + ROWS, last, ROWS, num_stages=STAGES):
            k_low, k_high, v = rows_of(
                keys, values, pages, start, last, head * D, PAGE, ROW, H, ROWS
            )
            best, total, seen = attended_rows(
                q_low, q_high, k_low, k_high, v, start, last, scale, best, total, seen, ROWS
            )
        if part == newest:
            at = (page.to(tl.int64) * PAGE + old % PAGE) * ROW + head * D
            new_low, new_high = _turned(
                k_first, k_second, k_gain, k_gain_high, cosine, sine, eps, qkv, H, NORMED
            )
            tl.store(keys + at + half[None, :], new_low)
            tl.store(keys + at + H + half[None, :], new_high)
            tl.store(values + at + whole, new_v)
            low = q_low.to(tl.float32) * new_low.to(tl.float32)
            high = q_high.to(tl.float32) * new_high.to(tl.float32)
            score = tl.sum(low + high, axis=1) * scale
            above = tl.maximum(best, score)
            weight = tl.exp(score - above)
            fade = tl.exp(best - above)
            total = total * fade + weight
            seen = seen * fade[:, None] + weight[:, None] * new_v.to(tl.float32)[None, :]
            best = above
        if newest == 0:
            to = (head * GROUP + query)[:, None] * D + whole[None, :]
            made = (seen / total[:, None]).to(out.dtype.element_ty)
            tl.store(out + to, made, mask=is_query[:, None])
        else:
            own = head * PARTS + part
            to = (own * GROUP + query)[:, None] * D + whole[None, :]
            tl.store(sums + to, seen, mask=is_query[:, None])
            tl.store(bests + own * 2 * GROUP + query, best, mask=is_query)
            tl.store(bests + (own * 2 + 1) * GROUP + query, total, mask=is_query)
            tl.debug_barrier()
            if tl.atomic_add(arrived + head, 1, sem="acq_rel") == newest:
                _join(sums, bests, out, head, newest, GROUP, D, PARTS, SLOTS, QUERIES)
                tl.store(arrived + head, 0)


@triton.jit
def _join(
    sums, bests, out, head, newest,
    GROUP: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr, SLOTS: tl.constexpr,
    QUERIES: tl.constexpr,
):  # fmt: skip
    """All parts up to `newest` together, in their order."""
    part = tl.arange(0, SLOTS)
    query = tl.arange(0, QUERIES)
    whole = tl.arange(0, D)
    is_query = query < GROUP
    first = head * PARTS
    at = bests + ((first + part) * 2 * GROUP)[None, :] + query[:, None]
    there = (part <= newest)[None, :] & is_query[:, None]
    best = tl.max(tl.load(at, mask=there, other=float("-inf"), cache_modifier=".cg"), axis=1)
    best = tl.where(is_query, best, 0.0)
    under = tl.zeros((QUERIES,), dtype=tl.float32)
    made = tl.zeros((QUERIES, D), dtype=tl.float32)
    for other in tl.static_range(PARTS):
        is_there = is_query & (other <= newest)
        own = bests + (first + other) * 2 * GROUP + query
        greatest = tl.load(own, mask=is_there, other=float("-inf"), cache_modifier=".cg")
        total = tl.load(own + GROUP, mask=is_there, other=0.0, cache_modifier=".cg")
        seen = tl.load(
            sums + ((first + other) * GROUP + query)[:, None] * D + whole[None, :],
            mask=is_there[:, None],
            other=0.0,
            cache_modifier=".cg",
        )
        fade = tl.exp(greatest - best)
        under += fade * total
        made += fade[:, None] * seen
    under = tl.where(is_query, under, 1.0)
    to = (head * GROUP + query)[:, None] * D + whole[None, :]
    tl.store(out + to, (made / under[:, None]).to(out.dtype.element_ty), mask=is_query[:, None])

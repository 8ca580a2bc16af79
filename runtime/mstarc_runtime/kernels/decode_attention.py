"""Attention of one new row a request over its pages, with what stands around it in one kernel.

The row's queries and keys are normed, where the model norms heads, and turned by their position,
its key and value are written into the cache, and the request's rows are attended: `qkv`
bf16[B, (Hq + 2 Hkv) D] → bf16[B, Hq D].

A block takes the query heads of one key-value head and a part of the rows. The grid is fixed, so
that a captured step needs no plan: how many rows a part has is computed from the request's length
on the device. The block that comes last joins the parts in their order. A request alone has a
kernel of its own (`one_row_attention`).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous


@triton.jit
def turned(at, cosine, sine, mask, norm, eps, H: tl.constexpr, NORMED: tl.constexpr):
    """Both halves of heads at pointers `at` [R, H], turned, as the cache keeps them."""
    first = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(at + H, mask=mask, other=0.0).to(tl.float32)
    if NORMED:
        half = tl.arange(0, H)
        total = tl.sum(first * first + second * second, axis=1)[:, None]
        factor = tl.rsqrt(total / (2 * H) + eps)
        first *= factor * tl.load(norm + half)[None, :].to(tl.float32)
        second *= factor * tl.load(norm + H + half)[None, :].to(tl.float32)
    low = (first * cosine - second * sine).to(at.dtype.element_ty)
    high = (second * cosine + first * sine).to(at.dtype.element_ty)
    return low, high


@triton.jit
def rows_of(
    keys, values, pages, start, last, shift,
    PAGE: tl.constexpr, ROW: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Keys of rows `start`.. below `last`, in halves [H, ROWS], and values [ROWS, 2 H]."""
    row = start + tl.arange(0, ROWS)
    there = row < last
    half = tl.arange(0, H)
    page = tl.load(pages + row // PAGE, mask=there, other=0)
    at = (page.to(tl.int64) * PAGE + row % PAGE) * ROW + shift
    k_low = tl.load(keys + at[None, :] + half[:, None], mask=there[None, :], other=0.0)
    k_high = tl.load(keys + at[None, :] + H + half[:, None], mask=there[None, :], other=0.0)
    whole = tl.arange(0, 2 * H)
    v = tl.load(values + at[:, None] + whole[None, :], mask=there[:, None], other=0.0)
    return k_low, k_high, v


@triton.jit
def attended_rows(
    q_low, q_high, k_low, k_high, v, start, last, scale, best, total, seen, ROWS: tl.constexpr
):
    """(greatest score, weights' sum, weighted values) with these rows as well."""
    there = start + tl.arange(0, ROWS) < last
    scores = (tl.dot(q_low, k_low) + tl.dot(q_high, k_high)) * scale
    scores = tl.where(there[None, :], scores, float("-inf"))
    above = tl.maximum(best, tl.max(scores, axis=1))
    weights = tl.exp(scores - above[:, None])
    fade = tl.exp(best - above)
    total = total * fade + tl.sum(weights, axis=1)
    seen = seen * fade[:, None] + tl.dot(weights.to(v.dtype), v)
    return above, total, seen


@triton.jit
def leave(to, best, total, seen, is_query, D: tl.constexpr):
    """Sums, the greatest score and the weights' sum of queries, D + 2 numbers at pointers `to`."""
    whole = tl.arange(0, D)
    tl.store(to[:, None] + whole[None, :], seen, mask=is_query[:, None])
    tl.store(to + D, best, mask=is_query)
    tl.store(to + D + 1, total, mask=is_query)
    tl.debug_barrier()


@triton.jit
def with_parts(
    partial, block, queries, is_query, best, total, seen,
    D: tl.constexpr, PARTS: tl.constexpr, QUERIES: tl.constexpr,
):  # fmt: skip
    """(weights' sum, weighted values) with what a block's parts have left, in their order.

    `partial` is [block, part, QUERIES, D + 2], `best` the greatest score of all.
    """
    whole = tl.arange(0, D)
    for other in tl.static_range(PARTS):
        at = ((block * PARTS + other) * QUERIES + queries) * (D + 2)
        greatest = tl.load(
            partial + at + D, mask=is_query, other=float("-inf"), cache_modifier=".cg"
        )
        weights = tl.load(partial + at + D + 1, mask=is_query, other=0.0, cache_modifier=".cg")
        sums = tl.load(
            partial + at[:, None] + whole[None, :],
            mask=is_query[:, None],
            other=0.0,
            cache_modifier=".cg",
        )
        fade = tl.exp(greatest - best)
        total += fade * weights
        seen += fade[:, None] * sums
    return total, seen


@triton.jit
def _join(
    partial, arrived, out, to, block, part, best, total, seen, is_query,
    D: tl.constexpr, Q: tl.constexpr, PARTS: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Leaves what this part found; the last to come adds all parts in their order."""
    queries = tl.arange(0, Q)
    WIDE: tl.constexpr = D + 2
    leave(partial + ((block * PARTS + part) * Q + queries) * WIDE, best, total, seen, is_query, D)
    if tl.atomic_add(arrived + block, 1, sem="acq_rel") == PARTS - 1:
        every = tl.arange(0, SLOTS)
        at = ((block * PARTS + every)[:, None] * Q + queries[None, :]) * WIDE
        there = (every < PARTS)[:, None] & is_query[None, :]
        bests = tl.load(partial + at + D, mask=there, other=float("-inf"), cache_modifier=".cg")
        best = tl.where(is_query, tl.max(bests, axis=0), 0.0)
        seen = tl.zeros((Q, D), dtype=tl.float32)
        total = tl.zeros((Q,), dtype=tl.float32)
        total, seen = with_parts(partial, block, queries, is_query, best, total, seen, D, PARTS, Q)
        result = (seen / total[:, None]).to(out.dtype.element_ty)
        tl.store(out + to, result, mask=is_query[:, None])
        tl.store(arrived + block, 0)


@triton.jit
def attended_part(
    qkv, cosines, sines, positions, lengths, pages, keys, values, q_norm, k_norm,
    page_stride, scale, eps, request, head, part, begin,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    PARTS: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, NORMED: tl.constexpr,
    LATE: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """What `attended_rows` gives of a request's rows from `begin` on that fall to `part`, for the
    queries of a key-value head. The last part has the new row, and writes it."""
    GROUP: tl.constexpr = HEADS // KV_HEADS
    H: tl.constexpr = D // 2
    Q: tl.constexpr = 16
    # The stride between a row's heads is D, between rows of a page KV_HEADS * D.
    ROW: tl.constexpr = KV_HEADS * D
    length = tl.load(lengths + request)
    half = tl.arange(0, H)
    whole = tl.arange(0, D)
    queries = tl.arange(0, Q)
    if not LATE:
        position = tl.load(positions + request)
    row_at = qkv + request * (HEADS + 2 * KV_HEADS) * D
    q_at = row_at + (head * GROUP + queries)[:, None] * D + half[None, :]
    # The new row is the last of `length`; it is attended from the registers of the last part.
    old = length - 1
    share = tl.cdiv(tl.cdiv(tl.maximum(old - begin, 0), ROWS), PARTS) * ROWS
    first = begin + part * share
    last = tl.minimum(first + share, old)
    # Rows of earlier steps: the first of them are fetched while the previous kernel ends.
    base = pages + request * page_stride
    k_low, k_high, v = rows_of(keys, values, base, first, last, head * D, PAGE, ROW, H, ROWS)
    if not LATE:
        cosine = tl.load(cosines + position * H + half)[None, :]
        sine = tl.load(sines + position * H + half)[None, :]
    wait_for_previous(CHAINED)
    if LATE:
        # A kernel of this step has computed where the row stands.
        position = tl.load(positions + request)
        cosine = tl.load(cosines + position * H + half)[None, :]
        sine = tl.load(sines + position * H + half)[None, :]
    q_low, q_high = turned(q_at, cosine, sine, (queries < GROUP)[:, None], q_norm, eps, H, NORMED)
    best = tl.full((Q,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((Q,), dtype=tl.float32)
    seen = tl.zeros((Q, D), dtype=tl.float32)
    if first < last:
        best, total, seen = attended_rows(
            q_low, q_high, k_low, k_high, v, first, last, scale, best, total, seen, ROWS
        )
    for start in tl.range(first + ROWS, last, ROWS, num_stages=STAGES):
        k_low, k_high, v = rows_of(keys, values, base, start, last, head * D, PAGE, ROW, H, ROWS)
        best, total, seen = attended_rows(
            q_low, q_high, k_low, k_high, v, start, last, scale, best, total, seen, ROWS
        )
    if part == PARTS - 1:
        page = tl.load(pages + request * page_stride + old // PAGE)
        at = (page.to(tl.int64) * PAGE + old % PAGE) * ROW + head * D
        k_at = row_at + (HEADS + head) * D
        new_low, new_high = turned(
            k_at + half[None, :], cosine, sine, (half < H)[None, :], k_norm, eps, H, NORMED
        )
        new_v = tl.load(row_at + (HEADS + KV_HEADS + head) * D + whole)
        tl.store(keys + at + half[None, :], new_low)
        tl.store(keys + at + H + half[None, :], new_high)
        tl.store(values + at + whole, new_v)
        score = tl.sum(
            q_low.to(tl.float32) * new_low.to(tl.float32)
            + q_high.to(tl.float32) * new_high.to(tl.float32),
            axis=1,
        )
        score *= scale
        above = tl.maximum(best, score)
        weight = tl.exp(score - above)
        fade = tl.exp(best - above)
        total = total * fade + weight
        seen = seen * fade[:, None] + weight[:, None] * new_v.to(tl.float32)[None, :]
        best = above

    return best, total, seen


@triton.jit
def attend_rows(
    qkv,
    cosines,
    sines,
    positions,
    lengths,
    pages,
    keys,
    values,
    partial,
    arrived,
    out,
    q_norm,
    k_norm,
    page_stride,
    scale,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    SLOTS: tl.constexpr,
    STAGES: tl.constexpr,
    NORMED: tl.constexpr,
    LATE: tl.constexpr,
    CHAINED: tl.constexpr,
):
    request = tl.program_id(0)
    head = tl.program_id(1)
    part = tl.program_id(2)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    Q: tl.constexpr = 16
    allow_next(CHAINED)
    best, total, seen = attended_part(
        qkv, cosines, sines, positions, lengths, pages, keys, values, q_norm, k_norm,
        page_stride, scale, eps, request, head, part, 0,
        HEADS, KV_HEADS, D, PAGE, PARTS, ROWS, STAGES, NORMED, LATE, CHAINED,
    )  # fmt: skip
    queries = tl.arange(0, Q)
    whole = tl.arange(0, D)
    is_query = queries < GROUP
    to = (request * HEADS + head * GROUP + queries)[:, None] * D + whole[None, :]
    if PARTS == 1:
        tl.store(out + to, (seen / total[:, None]).to(out.dtype.element_ty), mask=is_query[:, None])
    else:
        _join(
            partial, arrived, out, to, request * KV_HEADS + head, part, best, total, seen,
            is_query, D, Q, PARTS, SLOTS,
        )  # fmt: skip


_BLOCKS = 256
"""Blocks that fill the chip once: two on each of an H200's 132 multiprocessors, nearly."""
_MOST_PARTS = 16


def cut_of(*, batch: int, kv_heads: int, most_rows: int) -> dict[str, int]:
    """How a bucket is cut, for contexts of up to `most_rows`: `parts` blocks share the rows of a
    request and head, `rows` at a time, with `stages` of them under way. Measured on an H200."""
    # A context that never grows long is no more blocks' work than it has rows.
    rows = min(128, max(16, triton.next_power_of_2(most_rows)))
    parts = min(_MOST_PARTS, max(1, round(_BLOCKS / (batch * kv_heads))))
    is_full = batch >= 16
    return {
        "parts": min(parts, int(triton.cdiv(most_rows, rows))),
        "rows": rows,
        "warps": 4 if is_full else 8,
        "stages": 3 if is_full else 2,
    }


class DecodeAttention:
    """The launch for one bucket and one cache; `parts` blocks a head share a request's rows."""

    def __init__(
        self,
        *,
        batch: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        page_size: int,
        parts: int,
        rows: int,
        warps: int = 8,
        stages: int = 2,
        chained: bool,
        device: torch.device,
    ) -> None:
        self.batch, self.heads, self.kv_heads, self.head_dim = batch, heads, kv_heads, head_dim
        self.page_size, self.parts, self.rows = page_size, parts, rows
        self.warps, self.stages = warps, stages
        self.chained = chained
        self.partial = torch.empty(
            (batch * kv_heads, parts, 16, head_dim + 2), dtype=torch.float32, device=device
        )
        self.arrived = torch.zeros(batch * kv_heads, dtype=torch.int32, device=device)

    def __call__(
        self,
        qkv: Tensor,
        out: Tensor,
        *,
        angles: tuple[Tensor, Tensor],
        positions: Tensor,
        lengths: Tensor,
        pages: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        norms: tuple[Tensor, Tensor] | None = None,
        eps: float = 0.0,
        are_positions_new: bool = False,
    ) -> None:
        """`angles`: tables f32[positions, D / 2]; `positions` i64[B]; `lengths` i32[B] with the new
        row; `pages` i32[B, most pages]; `keys`, `values` of one layer [pages, page, Hkv, D];
        `norms` of queries and keys [D]. `are_positions_new`: the kernel before makes them."""
        attend_rows[(self.batch, self.kv_heads, self.parts)](
            qkv,
            *angles,
            positions,
            lengths,
            pages,
            keys,
            values,
            self.partial,
            self.arrived,
            out,
            *((qkv, qkv) if norms is None else norms),
            pages.stride(0),
            scale,
            eps,
            HEADS=self.heads,
            KV_HEADS=self.kv_heads,
            D=self.head_dim,
            PAGE=self.page_size,
            PARTS=self.parts,
            ROWS=self.rows,
            SLOTS=triton.next_power_of_2(self.parts),
            STAGES=self.stages,
            NORMED=norms is not None,
            LATE=are_positions_new,
            CHAINED=self.chained,
            num_warps=self.warps,
            launch_pdl=self.chained,
        )

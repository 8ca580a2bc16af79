"""Attention where a step has one row of one request: as `decode_attention`, on vectors.

A kernel between two that stream weights should be small: then its blocks begin beside those of the
one before, and those of the next beside them. So a block takes one query head, and no tensor cores,
whose operands go through shared memory: keys and values stay in the registers into which they came
while the kernel before still ran. A row is held by a group of lanes.

How many parts the rows are cut into follows from their number, on the device. Blocks without rows
leave at once; the last part takes the new row too. Where there is one part it is all; else the
block that comes last adds the parts in their order.

As long as a block can hold its whole part it does. Contexts that are longer are cut otherwise: more
parts, of which a block takes some rows at a time and asks for the next meanwhile, for more query
heads of a key-value head, so that these rows are read less often.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous

AT_ONCE = tl.constexpr(16)
"""Parts that are added at once."""


@triton.jit
def _turned(
    x, other, gain, other_gain, cosine, sine, eps, D: tl.constexpr, NORMED: tl.constexpr
):  # fmt: skip
    """Heads f32[.., D], whose other halves are `other`, normed and turned."""
    if NORMED:
        factor = tl.rsqrt(tl.sum(x * x, axis=1) / D + eps)[:, None]
        x *= factor * gain.to(tl.float32)
        other *= factor * other_gain.to(tl.float32)
    return x * cosine + other * sine


@triton.jit
def _rows(
    keys, values, page, row, last, whole, PAGE: tl.constexpr, ROW: tl.constexpr,
    TIMES: tl.constexpr,
):  # fmt: skip
    """Keys and values [1, G, I, D] of I rows from `row` i32[G] on, and which are below `last`.

    A group's rows are in one page."""
    time = tl.arange(0, TIMES)[None, None, :]
    there = row[None, :, None] + time < last
    at = (page.to(tl.int64) * PAGE + row % PAGE) * ROW
    at = (at[None, :, None] + time * ROW)[:, :, :, None] + whole[None, None, None, :]
    k = tl.load(keys + at, mask=there[:, :, :, None], other=0.0)
    v = tl.load(values + at, mask=there[:, :, :, None], other=0.0)
    return k, v, there


@triton.jit
def _left(
    sums, stats, block, part, count, D: tl.constexpr, Q: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """(greatest scores [P, Q], weights' sums, weighted values [P, Q, D]) that parts below `count`
    have left of a block's queries."""
    query = tl.arange(0, Q)[None, :]
    at = (block * PARTS + part[:, None]) * Q + query
    has = (part[:, None] < count) & (query < Q)
    best = tl.load(stats + at * 2, mask=has, other=float("-inf"), cache_modifier=".cg")
    total = tl.load(stats + at * 2 + 1, mask=has, other=0.0, cache_modifier=".cg")
    seen = tl.load(
        sums + at[:, :, None] * D + tl.arange(0, D)[None, None, :],
        mask=has[:, :, None],
        other=0.0,
        cache_modifier=".cg",
    )
    return best, total, seen


@triton.jit
def _join(
    sums, stats, out, block, count, D: tl.constexpr, Q: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """Adds what `count` parts of a block's queries have left, in their order."""
    part = tl.arange(0, AT_ONCE)
    bests, totals, parts = _left(sums, stats, block, part, count, D, Q, PARTS)
    best = tl.max(bests, axis=0)
    fades = tl.exp(bests - best[None, :])
    total = tl.sum(totals * fades, axis=0)
    seen = tl.sum(parts * fades[:, :, None], axis=0)
    for first in tl.range(AT_ONCE, count, AT_ONCE, num_stages=1):
        bests, totals, parts = _left(sums, stats, block, first + part, count, D, Q, PARTS)
        above = tl.maximum(best, tl.max(bests, axis=0))
        fade = tl.exp(best - above)
        fades = tl.exp(bests - above[None, :])
        total = total * fade + tl.sum(totals * fades, axis=0)
        seen = seen * fade[:, None] + tl.sum(parts * fades[:, :, None], axis=0)
        best = above
    to = (block * Q + tl.arange(0, Q))[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out + to, (seen / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def _scored(q, k, there, scale):
    """Scores [Q, G, I] of rows `k` [1, G, I, D] for queries [Q, 1, 1, D]."""
    return tl.where(there, tl.sum(q * k.to(tl.float32), axis=3) * scale, float("-inf"))


@triton.jit
def _attend(
    qkv, cosines, sines, positions, pages, keys, values, sums, stats, arrived, out, q_norm, k_norm,
    scale, eps, old, block, part,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    Q: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, GROUPS: tl.constexpr,
    IS_HELD: tl.constexpr, NORMED: tl.constexpr, LATE: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """A block's queries against a part of the `old` rows and, in the last part, the new one.
    `IS_HELD`: no part has more than `ROWS`."""
    H: tl.constexpr = D // 2
    ROW: tl.constexpr = KV_HEADS * D
    GROUP: tl.constexpr = HEADS // KV_HEADS
    TIMES: tl.constexpr = ROWS // GROUPS
    each = ROWS
    if not IS_HELD:
        each = tl.cdiv(old, PARTS * ROWS) * ROWS
    count = tl.maximum(tl.cdiv(old, each), 1)
    if part < count:
        first = part * each
        last = tl.minimum(first + each, old)
        head = block * Q // GROUP
        keys += head * D
        values += head * D
        whole = tl.arange(0, D)
        row = first + tl.arange(0, GROUPS) * TIMES
        page = tl.load(pages + row // PAGE, mask=row < last, other=0)
        k, v, there = _rows(keys, values, page, row, last, whole, PAGE, ROW, TIMES)
        if not IS_HELD:
            row += ROWS
            page = tl.load(pages + row // PAGE, mask=row < last, other=0)
        new_page = tl.load(pages + old // PAGE)
        wide = whole[None, :]
        other = (wide + H) % D
        q_gain, q_other_gain, k_gain, k_other_gain = 1.0, 1.0, 1.0, 1.0
        if NORMED:
            q_gain = tl.load(q_norm + wide)
            q_other_gain = tl.load(q_norm + other)
            k_gain = tl.load(k_norm + wide)
            k_other_gain = tl.load(k_norm + other)
        if not LATE:
            turn = tl.load(positions) * H + wide % H
            cosine = tl.load(cosines + turn)
            sine = tl.load(sines + turn)
        wait_for_previous(CHAINED)
        if LATE:
            # A kernel of this step has computed where the row stands.
            turn = tl.load(positions) * H + wide % H
            cosine = tl.load(cosines + turn)
            sine = tl.load(sines + turn)
        sine = tl.where(wide < H, -sine, sine)
        query = block * Q + tl.arange(0, Q)
        q_at = qkv + query[:, None] * D
        k_at = qkv + (HEADS + head) * D
        q = tl.load(q_at + wide).to(tl.float32)
        q_other = tl.load(q_at + other).to(tl.float32)
        new = tl.load(k_at + wide).to(tl.float32)
        new_other = tl.load(k_at + other).to(tl.float32)
        new_v = tl.load(k_at + KV_HEADS * D + wide)
        q = _turned(q, q_other, q_gain, q_other_gain, cosine, sine, eps, D, NORMED)
        # What every group of lanes takes of it.
        q_all = q[:, None, None, :]
        new = _turned(new, new_other, k_gain, k_other_gain, cosine, sine, eps, D, NORMED)
        new = new.to(keys.dtype.element_ty)
        is_last = part == count - 1
        if is_last & (block * Q % GROUP == 0):
            new_at = (new_page.to(tl.int64) * PAGE + old % PAGE) * ROW + wide
            tl.store(keys + new_at, new)
            tl.store(values + new_at, new_v)
        best = tl.sum(q * new.to(tl.float32), axis=1) * scale
        best = tl.where(is_last, best, float("-inf"))
        if IS_HELD:
            scores = _scored(q_all, k, there, scale)
            above = tl.maximum(best, tl.max(tl.max(scores, axis=2), axis=1))
            weights = tl.exp(scores - above[:, None, None])
            total = tl.sum(weights, axis=2)
            seen = tl.sum(weights[:, :, :, None] * v.to(tl.float32), axis=2)
        else:
            # Each group keeps the greatest score and the sums of its own rows.
            greatest = tl.full((Q, GROUPS), float("-inf"), dtype=tl.float32)
            total = tl.zeros((Q, GROUPS), dtype=tl.float32)
            seen = tl.zeros((Q, GROUPS, D), dtype=tl.float32)
            for _ in tl.range(first, last, ROWS, num_stages=1):
                scores = _scored(q_all, k, there, scale)
                highest = tl.maximum(greatest, tl.max(scores, axis=2))
                # A group that has had no row yet has nothing to fade.
                base = tl.where(highest == float("-inf"), 0.0, highest)
                weights = tl.exp(scores - base[:, :, None])
                fade = tl.exp(greatest - base)
                total = total * fade + tl.sum(weights, axis=2)
                added = tl.sum(weights[:, :, :, None] * v.to(tl.float32), axis=2)
                seen = seen * fade[:, :, None] + added
                greatest = highest
                # The next rows come while others add theirs up.
                k, v, there = _rows(keys, values, page, row, last, whole, PAGE, ROW, TIMES)
                row += ROWS
                page = tl.load(pages + row // PAGE, mask=row < last, other=0)
            above = tl.maximum(best, tl.max(greatest, axis=1))
            fade = tl.exp(greatest - above[:, None])
            total *= fade
            seen *= fade[:, :, None]
        weight = tl.exp(best - above)
        under = tl.sum(total, axis=1) + weight
        made = tl.sum(seen, axis=1) + weight[:, None] * new_v.to(tl.float32)
        if count == 1:
            result = (made / under[:, None]).to(out.dtype.element_ty)
            tl.store(out + query[:, None] * D + wide, result)
        else:
            place = (block * PARTS + part) * Q + tl.arange(0, Q)
            tl.store(sums + place[:, None] * D + wide, made)
            tl.store(stats + place * 2, above)
            tl.store(stats + place * 2 + 1, under)
            tl.debug_barrier()
            if tl.atomic_add(arrived + block, 1, sem="acq_rel") == count - 1:
                _join(sums, stats, out, block, count, D, Q, PARTS)
                tl.store(arrived + block, 0)


@triton.jit
def attend_one(
    qkv, cosines, sines, positions, lengths, pages, keys, values, sums, stats, arrived, out,
    q_norm, k_norm, scale, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    PARTS: tl.constexpr, ROWS: tl.constexpr, FAR_QUERIES: tl.constexpr, FAR_PARTS: tl.constexpr,
    FAR_ROWS: tl.constexpr, GROUPS: tl.constexpr, NORMED: tl.constexpr, LATE: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    allow_next(CHAINED)
    # The new row is the last of the length.
    old = tl.load(lengths) - 1
    if old <= PARTS * ROWS:
        _attend(
            qkv, cosines, sines, positions, pages, keys, values, sums, stats, arrived, out, q_norm,
            k_norm, scale, eps, old, number % HEADS, number // HEADS, HEADS, KV_HEADS, D, PAGE, 1,
            PARTS, ROWS, GROUPS, True, NORMED, LATE, CHAINED,
        )  # fmt: skip
    elif FAR_PARTS > 0:
        BLOCKS: tl.constexpr = HEADS // FAR_QUERIES
        _attend(
            qkv, cosines, sines, positions, pages, keys, values, sums, stats, arrived, out, q_norm,
            k_norm, scale, eps, old, number % BLOCKS, number // BLOCKS, HEADS, KV_HEADS, D, PAGE,
            FAR_QUERIES, FAR_PARTS, FAR_ROWS, GROUPS, False, NORMED, LATE, CHAINED,
        )  # fmt: skip


_MOST_PARTS = 16
_FAR_PARTS = 32
_REGISTERS = 128
"""Of a thread. More would leave the products beside these blocks less room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRowCut:
    """`parts` that share a request's rows, at the most, each of up to `rows`; warps a block.

    Of longer contexts a block has `far_queries` of a key-value head, and takes its part of
    `far_parts` by `far_rows` at a time. No parts: there are none."""

    parts: int
    rows: int
    far_queries: int
    far_parts: int
    far_rows: int
    warps: int


def one_row_cut_of(
    *, heads: int, kv_heads: int, head_dim: int, page_size: int, most_rows: int
) -> OneRowCut:
    """The cut for contexts of up to `most_rows`. Measured on an H200."""
    warps = 2
    groups = groups_of(warps, head_dim)
    # A group's rows of a pass are in one page.
    in_page = page_size & -page_size
    rows = groups * min(8, in_page)
    parts = min(_MOST_PARTS, int(triton.cdiv(most_rows, rows)))
    return OneRowCut(
        parts=parts,
        rows=rows,
        far_queries=2 if heads // kv_heads % 2 == 0 else 1,
        far_parts=_FAR_PARTS if most_rows > parts * rows else 0,
        far_rows=groups * min(4, in_page),
        warps=warps,
    )


def groups_of(warps: int, head_dim: int) -> int:
    """Groups of lanes in a block: each lane has 16 bytes of a row."""
    return warps * 32 * 8 // head_dim


class OneRowAttention:
    """The launch for a bucket of one and one cache."""

    def __init__(
        self,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        page_size: int,
        cut: OneRowCut,
        chained: bool,
        device: torch.device,
    ) -> None:
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.page_size, self.cut, self.chained = page_size, cut, chained
        self.groups = groups_of(cut.warps, head_dim)
        for rows in (cut.rows, cut.far_rows):
            assert page_size % (rows // self.groups) == 0, (page_size, cut)
        assert heads // kv_heads % cut.far_queries == 0, (heads, kv_heads, cut)
        self.blocks = max(heads * cut.parts, heads // cut.far_queries * cut.far_parts)
        places = heads * max(cut.parts, cut.far_parts)
        self.sums = torch.empty(places, head_dim, dtype=torch.float32, device=device)
        self.stats = torch.empty(places, 2, dtype=torch.float32, device=device)
        self.arrived = torch.zeros(heads, dtype=torch.int32, device=device)

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
        """As `DecodeAttention`, of one request."""
        attend_one[(self.blocks,)](
            qkv,
            *angles,
            positions,
            lengths,
            pages,
            keys,
            values,
            self.sums,
            self.stats,
            self.arrived,
            out,
            *((qkv, qkv) if norms is None else norms),
            scale,
            eps,
            HEADS=self.heads,
            KV_HEADS=self.kv_heads,
            D=self.head_dim,
            PAGE=self.page_size,
            PARTS=self.cut.parts,
            ROWS=self.cut.rows,
            FAR_QUERIES=self.cut.far_queries,
            FAR_PARTS=self.cut.far_parts,
            FAR_ROWS=self.cut.far_rows,
            GROUPS=self.groups,
            NORMED=norms is not None,
            LATE=are_positions_new,
            CHAINED=self.chained,
            num_warps=self.cut.warps,
            maxnreg=_REGISTERS,
            launch_pdl=self.chained,
        )

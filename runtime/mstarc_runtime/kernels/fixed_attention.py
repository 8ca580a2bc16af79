"""Attention of as many rows a request over its pages: `q` bf16[B * each, Hq, D] → the same shape.

Keys and values of the rows themselves are in the cache already. A block takes some rows' queries of
one key-value head and a part of the context. The grid is fixed, so that a captured call needs no
plan: how many rows a part has is computed from the request's length on the device. A second kernel
joins the parts.
"""

from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.attention.mask import Mask
from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous


@triton.jit
def attend_fixed(
    q,
    keys,
    values,
    pages,
    lengths,
    firsts,
    partial,
    out,
    page_stride,
    scale,
    each,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    PARTS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    FRAME: tl.constexpr,
    STAGES: tl.constexpr,
    CHAINED: tl.constexpr,
):
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    tile = tl.program_id(0)
    head = tl.program_id(1)
    request = tl.program_id(2) // PARTS
    part = tl.program_id(2) % PARTS
    GROUP: tl.constexpr = HEADS // KV_HEADS
    # The stride between rows of a page.
    ROW: tl.constexpr = KV_HEADS * D
    number = tile * M + tl.arange(0, M)
    row = number // GROUP
    is_query = row < each
    whole = tl.arange(0, D)
    at = ((request * each + row) * HEADS + head * GROUP + number % GROUP).to(tl.int64) * D
    asked = tl.load(q + at[:, None] + whole[None, :], mask=is_query[:, None], other=0.0)
    length = tl.load(lengths + request)
    end = tl.full((M,), 1, tl.int32) * length
    if FRAME > 0:
        # A row sees all up to the end of its frame; of frames of one row, up to itself.
        before = tl.load(firsts + request)
        end = tl.minimum(((before + row) // FRAME + 1) * FRAME, length)
    share = tl.cdiv(tl.cdiv(length, N), PARTS) * N
    first = part * share
    last = tl.minimum(first + share, length)
    best = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    seen = tl.zeros((M, D), dtype=tl.float32)
    base = pages + request * page_stride
    for start in tl.range(first, last, N, num_stages=STAGES):
        other = start + tl.arange(0, N)
        there = other < last
        page = tl.load(base + other // PAGE, mask=there, other=0)
        held = (page.to(tl.int64) * PAGE + other % PAGE) * ROW + head * D
        k = tl.load(keys + held[None, :] + whole[:, None], mask=there[None, :], other=0.0)
        scores = tl.dot(asked, k) * (scale * 1.4426950408889634)
        scores = tl.where(there[None, :] & (other[None, :] < end[:, None]), scores, float("-inf"))
        above = tl.maximum(best, tl.max(scores, axis=1))
        # A row that has seen nothing yet has no greatest score.
        level = tl.where(above == float("-inf"), 0.0, above)
        weights = tl.exp2(scores - level[:, None])
        fade = tl.exp2(best - level)
        total = total * fade + tl.sum(weights, axis=1)
        v = tl.load(values + held[:, None] + whole[None, :], mask=there[:, None], other=0.0)
        seen = seen * fade[:, None] + tl.dot(weights.to(v.dtype), v)
        best = above
    to = out + at[:, None] + whole[None, :]
    if PARTS == 1:
        result = (seen / total[:, None]).to(out.dtype.element_ty)
        tl.store(to, result, mask=is_query[:, None])
    else:
        # [block, part, query, D + 2]: sums, then the greatest score and the weights' sum
        WIDE: tl.constexpr = D + 2
        block = (request * KV_HEADS + head) * tl.num_programs(0) + tile
        query = tl.arange(0, M)
        own = ((block * PARTS + part).to(tl.int64) * M + query) * WIDE
        tl.store(partial + own[:, None] + whole[None, :], seen)
        tl.store(partial + own + D, best)
        tl.store(partial + own + D + 1, total)


@triton.jit
def join_parts(
    partial,
    out,
    each,
    tiles,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    PARTS: tl.constexpr,
    SLOTS: tl.constexpr,
    M: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """One query of one block, of all parts."""
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    block = tl.program_id(0)
    query = tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    WIDE: tl.constexpr = D + 2
    number = block % tiles * M + query
    row = number // GROUP
    if row < each:
        head = block // tiles % KV_HEADS
        request = block // tiles // KV_HEADS
        part = tl.arange(0, SLOTS)
        whole = tl.arange(0, D)
        own = ((block * PARTS + part).to(tl.int64) * M + query) * WIDE
        there = part < PARTS
        best = tl.load(partial + own + D, mask=there, other=float("-inf"))
        fade = tl.exp2(best - tl.max(best, axis=0))
        total = tl.sum(fade * tl.load(partial + own + D + 1, mask=there, other=0.0), axis=0)
        sums = tl.load(partial + own[:, None] + whole[None, :], mask=there[:, None], other=0.0)
        seen = tl.sum(fade[:, None] * sums, axis=0) / total
        at = ((request * each + row) * HEADS + head * GROUP + number % GROUP).to(tl.int64) * D
        tl.store(out + at + whole, seen.to(out.dtype.element_ty))


_BLOCKS = 264
"""Blocks that fill the chip once: two on each of an H200's multiprocessors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendCut:
    """How the work is cut: queries of a block, keys at once, parts of the context, a block's warps,
    loads under way. Measured on an H200."""

    rows: int
    columns: int
    parts: int
    warps: int
    stages: int

    @classmethod
    def of(cls, *, blocks_of_64: int, queries: int, head_dim: int) -> Self:
        """For `queries` of one key-value head and request; `blocks_of_64` is how many blocks of 64
        queries there are in all."""
        rows = 64 if queries > 32 else max(16, triton.next_power_of_2(queries))
        # Of wide heads a multiprocessor has room for one block.
        share = max(1, _BLOCKS // (blocks_of_64 if head_dim <= 128 else 2 * blocks_of_64))
        if head_dim <= 128:
            return cls(rows=rows, columns=64, parts=min(8, share), warps=4, stages=3)
        if share > 8:
            return cls(rows=rows, columns=64, parts=min(14, share), warps=4, stages=2)
        if share > 1:
            return cls(rows=rows, columns=64, parts=share, warps=8, stages=2)
        return cls(rows=rows, columns=32, parts=1, warps=4, stages=2)


class FixedRowsAttention:
    """The launch for one bucket and one cache. `chained`: each kernel starts while the one before
    it ends (see `dependent`)."""

    def __init__(
        self,
        *,
        batch: int,
        each: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        page_size: int,
        mask: Mask,
        device: torch.device,
        chained: bool = False,
        cut: AttendCut | None = None,
    ) -> None:
        self._chained = chained
        self._batch, self._each, self._heads, self._kv_heads = batch, each, heads, kv_heads
        self._head_dim, self._page_size = head_dim, page_size
        self._frame = {"causal": 1, "frames": mask.frame_rows}.get(mask.kind, 0)
        queries = each * (heads // kv_heads)
        self._cut = cut or AttendCut.of(
            blocks_of_64=batch * kv_heads * triton.cdiv(queries, 64),
            queries=queries,
            head_dim=head_dim,
        )
        self._rows, self._parts = self._cut.rows, self._cut.parts
        self._tiles = triton.cdiv(queries, self._rows)
        blocks = batch * kv_heads * self._tiles
        self._partial = torch.empty(
            (blocks, self._parts, self._rows, head_dim + 2) if self._parts > 1 else (1,),
            dtype=torch.float32,
            device=device,
        )
        self._blocks = blocks

    def __call__(
        self,
        q: Tensor,
        *,
        lengths: Tensor,
        firsts: Tensor,
        pages: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
    ) -> Tensor:
        """`q` [B * each, Hq, D]; `lengths` i32[B] with these rows, `firsts` i32[B] without them;
        `pages` i32[B, most pages];
        `keys`, `values` of one layer [pages, page, Hkv, D]."""
        out = torch.empty_like(q)
        attend_fixed[(self._tiles, self._kv_heads, self._batch * self._parts)](
            q,
            keys,
            values,
            pages,
            lengths,
            firsts,
            self._partial,
            out,
            pages.stride(0),
            scale,
            self._each,
            HEADS=self._heads,
            KV_HEADS=self._kv_heads,
            D=self._head_dim,
            PAGE=self._page_size,
            PARTS=self._parts,
            M=self._rows,
            N=self._cut.columns,
            FRAME=self._frame,
            STAGES=self._cut.stages,
            CHAINED=self._chained,
            num_warps=self._cut.warps,
            launch_pdl=self._chained,
        )
        if self._parts > 1:
            join_parts[(self._blocks, self._rows)](
                self._partial,
                out,
                self._each,
                self._tiles,
                HEADS=self._heads,
                KV_HEADS=self._kv_heads,
                D=self._head_dim,
                PARTS=self._parts,
                SLOTS=triton.next_power_of_2(self._parts),
                M=self._rows,
                CHAINED=self._chained,
                num_warps=2,
                launch_pdl=self._chained,
            )
        return out

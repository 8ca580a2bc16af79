"""Decoding attention in two levels: chunks of prompts are read once for all that hold them.

As `decode_attention`, one row a request and `qkv` bf16[B, (Hq + 2 Hkv) D] → bf16[B, Hq D], and with
tasks beside it (`kvcache.levels`). Some blocks of the grid take tasks, a chunk's rows against the
query heads of all its requests, in one product; the others take what is a request's own. Whoever
comes last at a request adds up its chunks and its own parts, in their order. A request's chunks
follow from its prompt, and what a product's row is does not depend on the others, so that a row's
numbers depend on the bucket alone.

Tasks stand in tensors: a captured step goes on as they change; a block without one ends at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.decode_attention import (
    attended_part,
    attended_rows,
    leave,
    rows_of,
    turned,
    with_parts,
)
from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous

CHUNKS_AT_ONCE = tl.constexpr(8)


@triton.jit
def _join(
    chunk_sums, partial, out, request, head, chunks,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr,
    SLOTS: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_SLOTS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Adds what was left of a request: sums, the greatest score and the weights' sum of each."""
    GROUP: tl.constexpr = HEADS // KV_HEADS
    WIDE: tl.constexpr = D + 2
    query = tl.arange(0, WIDTH)
    is_query = query < GROUP
    whole = tl.arange(0, D)
    block = request * KV_HEADS + head
    every = tl.arange(0, CHUNK_SLOTS)
    at = ((block * CHUNKS + every)[:, None] * GROUP + query[None, :]) * WIDE + D
    there = (every < chunks)[:, None] & is_query[None, :]
    best = tl.max(
        tl.load(chunk_sums + at, mask=there, other=float("-inf"), cache_modifier=".cg"), axis=0
    )
    part = tl.arange(0, SLOTS)
    at = ((block * PARTS + part)[:, None] * GROUP + query[None, :]) * WIDE + D
    there = (part < PARTS)[:, None] & is_query[None, :]
    own = tl.load(partial + at, mask=there, other=float("-inf"), cache_modifier=".cg")
    best = tl.where(is_query, tl.maximum(best, tl.max(own, axis=0)), 0.0)
    seen = tl.zeros((WIDTH, D), dtype=tl.float32)
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    some = tl.arange(0, CHUNKS_AT_ONCE)
    for first in range(0, chunks, CHUNKS_AT_ONCE):
        has = (first + some < chunks)[:, None] & is_query[None, :]
        from_at = ((block * CHUNKS + first + some)[:, None] * GROUP + query[None, :]) * WIDE
        greatest = tl.load(
            chunk_sums + from_at + D, mask=has, other=float("-inf"), cache_modifier=".cg"
        )
        weights = tl.load(chunk_sums + from_at + D + 1, mask=has, other=0.0, cache_modifier=".cg")
        sums = tl.load(
            chunk_sums + from_at[:, :, None] + whole[None, None, :],
            mask=has[:, :, None],
            other=0.0,
            cache_modifier=".cg",
        )
        fade = tl.exp(greatest - best[None, :])
        total += tl.sum(fade * weights, axis=0)
        seen += tl.sum(fade[:, :, None] * sums, axis=0)
    total, seen = with_parts(partial, block, query, is_query, best, total, seen, D, PARTS, GROUP)
    to = (request * HEADS + head * GROUP + query)[:, None] * D + whole[None, :]
    result = (seen / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + to, result, mask=is_query[:, None])


@triton.jit
def _take_task(
    qkv, cosines, sines, positions, keys, values, at, chunk_sums, q_norm, scale, eps, head,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
    ROWS: tl.constexpr, STAGES: tl.constexpr, NORMED: tl.constexpr, QUERIES: tl.constexpr,
    MEMBERS: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """A chunk's rows, attended by the query heads of all requests of the task at `at`."""
    GROUP: tl.constexpr = HEADS // KV_HEADS
    H: tl.constexpr = D // 2
    ROW: tl.constexpr = KV_HEADS * D
    half = tl.arange(0, H)
    query = tl.arange(0, QUERIES)
    member = query // GROUP
    number = query % GROUP
    request = tl.load(at + 1 + member, mask=member < MEMBERS, other=-1)
    is_query = request >= 0
    row = tl.where(is_query, request, 0)
    position = tl.load(positions + row)
    cosine = tl.load(cosines + position[:, None] * H + half[None, :])
    sine = tl.load(sines + position[:, None] * H + half[None, :])
    q_at = row * (HEADS + 2 * KV_HEADS) * D + (head * GROUP + number) * D
    q_low, q_high = turned(
        qkv + q_at[:, None] + half[None, :], cosine, sine, is_query[:, None], q_norm, eps, H, NORMED
    )
    best = tl.full((QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((QUERIES,), dtype=tl.float32)
    seen = tl.zeros((QUERIES, D), dtype=tl.float32)
    for start in tl.range(0, CHUNK, ROWS, num_stages=STAGES):
        k_low, k_high, v = rows_of(
            keys, values, at + 1 + MEMBERS, start, CHUNK, head * D, PAGE, ROW, H, ROWS
        )
        best, total, seen = attended_rows(
            q_low, q_high, k_low, k_high, v, start, CHUNK, scale, best, total, seen, ROWS
        )
    block = row * KV_HEADS + head
    to = chunk_sums + ((block * CHUNKS + tl.load(at)) * GROUP + number) * (D + 2)
    leave(to, best, total, seen, is_query, D)


@triton.jit
def _arrive(
    arrived, chunk_sums, partial, out, request, head, chunks,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr,
    SLOTS: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_SLOTS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Whoever comes last at a request adds up what all have left."""
    counter = arrived + request * KV_HEADS + head
    if tl.atomic_add(counter, 1, sem="acq_rel") == PARTS + chunks - 1:
        _join(
            chunk_sums, partial, out, request, head, chunks, HEADS, KV_HEADS, D, PARTS, SLOTS,
            CHUNKS, CHUNK_SLOTS, WIDTH,
        )  # fmt: skip
        tl.store(counter, 0)


@triton.jit
def attend_levels(
    qkv,
    cosines,
    sines,
    positions,
    lengths,
    pages,
    keys,
    values,
    chunk_counts,
    task_count,
    tasks,
    chunk_sums,
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
    TASK_BLOCKS: tl.constexpr,
    TASK_QUERIES: tl.constexpr,
    TASK_SIZE: tl.constexpr,
    MEMBERS: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK_SLOTS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHAINED: tl.constexpr,
):
    place = tl.program_id(0)
    head = tl.program_id(1)
    part = tl.program_id(2)
    allow_next(CHAINED)
    if place < TASK_BLOCKS:
        count = tl.load(task_count)
        wait_for_previous(CHAINED)
        for task in range(place * PARTS + part, count, TASK_BLOCKS * PARTS):
            at = tasks + task * TASK_SIZE
            _take_task(
                qkv, cosines, sines, positions, keys, values, at, chunk_sums, q_norm, scale, eps,
                head, HEADS, KV_HEADS, D, PAGE, ROWS, STAGES, NORMED, TASK_QUERIES, MEMBERS, CHUNK,
                CHUNKS,
            )  # fmt: skip
            for number in range(MEMBERS):
                member = tl.load(at + 1 + number)
                if member >= 0:
                    _arrive(
                        arrived, chunk_sums, partial, out, member, head,
                        tl.load(chunk_counts + member), HEADS, KV_HEADS, D, PARTS, SLOTS, CHUNKS,
                        CHUNK_SLOTS, WIDTH,
                    )  # fmt: skip
    else:
        request = place - TASK_BLOCKS
        chunks = tl.load(chunk_counts + request)
        best, total, seen = attended_part(
            qkv, cosines, sines, positions, lengths, pages, keys, values, q_norm, k_norm,
            page_stride, scale, eps, request, head, part, chunks * CHUNK,
            HEADS, KV_HEADS, D, PAGE, PARTS, ROWS, STAGES, NORMED, LATE, CHAINED,
        )  # fmt: skip
        GROUP: tl.constexpr = HEADS // KV_HEADS
        query = tl.arange(0, 16)
        own = ((request * KV_HEADS + head) * PARTS + part) * GROUP + query
        leave(partial + own * (D + 2), best, total, seen, query < GROUP, D)
        _arrive(
            arrived, chunk_sums, partial, out, request, head, chunks, HEADS, KV_HEADS, D, PARTS,
            SLOTS, CHUNKS, CHUNK_SLOTS, WIDTH,
        )  # fmt: skip


_TASK_BLOCKS = 16
"""Times key-value heads: blocks that take tasks."""
_TASK_QUERIES = 32
"""Query heads of a task, of all its requests: rows of one product."""
LEAST_BATCH = 4
"""Padded sizes below are attended request by request: few requests have little in common."""


def members_of(heads: int, kv_heads: int) -> int:
    """Requests of a task."""
    return _TASK_QUERIES // (heads // kv_heads)


def levels_cut_of(cut: dict[str, int]) -> dict[str, int]:
    """How a bucket is cut whose blocks take tasks as well: these need registers."""
    return {**cut, "rows": min(64, cut["rows"]), "warps": 4, "stages": 3}


class LevelAttention:
    """The launch for one bucket and one cache, cut as `decode_attention.cut_of` says."""

    def __init__(
        self,
        *,
        batch: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        page_size: int,
        chunk: int,
        most_chunks: int,
        parts: int,
        rows: int,
        warps: int = 8,
        stages: int = 2,
        chained: bool,
        device: torch.device,
    ) -> None:
        """A context has up to `most_chunks` chunks of `chunk` rows."""
        assert chunk % rows == 0, (chunk, rows)
        self.batch, self.heads, self.kv_heads, self.head_dim = batch, heads, kv_heads, head_dim
        self.page_size, self.parts, self.rows = page_size, parts, rows
        self.warps, self.stages, self.chained = warps, stages, chained
        self.chunk, self.most_chunks = chunk, most_chunks
        self.group = heads // kv_heads
        self.members = members_of(heads, kv_heads)
        self.task_blocks = max(1, _TASK_BLOCKS // parts)

        def sums(count: int) -> Tensor:
            shape = (batch * kv_heads, count, self.group, head_dim + 2)
            return torch.empty(shape, dtype=torch.float32, device=device)

        self.chunk_sums, self.partial = sums(most_chunks), sums(parts)
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
        chunks: Tensor,
        task_count: Tensor,
        tasks: Tensor,
        norms: tuple[Tensor, Tensor] | None = None,
        eps: float = 0.0,
        are_positions_new: bool = False,
    ) -> None:
        """As `DecodeAttention`; `chunks` i32[B], `task_count` i32[1] and `tasks` i32[T, n] are
        those of a `SharedLevel` with `members` requests a task."""
        grid = (self.task_blocks + self.batch, self.kv_heads, self.parts)
        attend_levels[grid](
            qkv,
            *angles,
            positions,
            lengths,
            pages,
            keys,
            values,
            chunks,
            task_count,
            tasks,
            self.chunk_sums,
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
            TASK_BLOCKS=self.task_blocks,
            TASK_QUERIES=_TASK_QUERIES,
            TASK_SIZE=tasks.stride(0),
            MEMBERS=self.members,
            CHUNK=self.chunk,
            CHUNKS=self.most_chunks,
            CHUNK_SLOTS=triton.next_power_of_2(self.most_chunks),
            WIDTH=triton.next_power_of_2(self.group),
            CHAINED=self.chained,
            num_warps=self.warps,
            launch_pdl=self.chained,
        )

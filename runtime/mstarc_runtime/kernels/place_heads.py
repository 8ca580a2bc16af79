"""A joined product of queries, keys and values → turned queries, and keys and values in the cache.

`qkv` bf16[R, (Hq + 2 Hkv) D] → q bf16[R, Hq, D]; keys and values go to the rows of the pool that
they belong to. Queries and keys may be normed first. A block takes one row, so that norms, rotary
positions and the append are one pass over the product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.attention.backend import JoinedHeads


@triton.jit
def place_heads(
    qkv,
    cosines,
    sines,
    q_norm,
    k_norm,
    at_rows,
    rows,
    pages,
    lengths,
    firsts,
    q,
    keys,
    values,
    page_stride,
    dummy_page,
    each,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    SLOTS: tl.constexpr,
    HALVES: tl.constexpr,
    NORMED: tl.constexpr,
    SOME: tl.constexpr,
    FOLLOWS: tl.constexpr,
    PAGE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, SLOTS)
    ALL: tl.constexpr = HEADS + 2 * KV_HEADS
    there = (head < ALL)[:, None]
    within = tl.arange(0, D)
    # The number that each is turned with, and which of the two it is.
    if HALVES:
        is_first = within < D // 2
        partner = tl.where(is_first, within + D // 2, within - D // 2)
    else:
        is_first = within % 2 == 0
        partner = tl.where(is_first, within + 1, within - 1)
    at = qkv + row * ALL * D + head[:, None] * D
    own = tl.load(at + within[None, :], mask=there, other=0.0)
    other = tl.load(at + partner[None, :], mask=there, other=0.0)
    is_query = (head < HEADS)[:, None]
    is_turned = (head < HEADS + KV_HEADS)[:, None]
    x = own.to(tl.float32)
    y = other.to(tl.float32)
    if NORMED:
        by = tl.rsqrt(tl.sum(x * x, axis=1) / D + eps)[:, None]
        w = tl.where(
            is_query, tl.load(q_norm + within)[None, :], tl.load(k_norm + within)[None, :]
        ).to(tl.float32)
        u = tl.where(
            is_query, tl.load(q_norm + partner)[None, :], tl.load(k_norm + partner)[None, :]
        ).to(tl.float32)
        x = (x * by * w).to(own.dtype).to(tl.float32)
        y = (y * by * u).to(own.dtype).to(tl.float32)
    cosine = tl.load(cosines + row * D + within)[None, :]
    sine = tl.load(sines + row * D + within)[None, :]
    turned = x * cosine + tl.where(is_first[None, :], -y, y) * sine
    made = tl.where(is_turned, turned, own.to(tl.float32)).to(own.dtype)
    # Angles and the product are the part's own; where a row goes is the call's affair.
    if SOME:
        row = tl.load(at_rows + row)
    tl.store(q + row * HEADS * D + head[:, None] * D + within[None, :], made, mask=is_query)
    if FOLLOWS:
        # The row follows those that were there before the call, in its request's pages.
        request = row // each
        number = tl.load(firsts + request) + row % each
        is_own = number < tl.load(lengths + request)
        page = tl.load(
            pages + request * page_stride + number // PAGE, mask=is_own, other=dummy_page
        )
        to = page.to(tl.int64) * PAGE + number % PAGE
    else:
        to = tl.load(rows + row)
    to = to * KV_HEADS * D
    is_key = is_turned & (head >= HEADS)[:, None]
    k_at = keys + to + (head[:, None] - HEADS) * D + within[None, :]
    tl.store(k_at, made, mask=is_key)
    is_value = there & (head >= HEADS + KV_HEADS)[:, None]
    v_at = values + to + (head[:, None] - HEADS - KV_HEADS) * D + within[None, :]
    tl.store(v_at, made, mask=is_value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Where rows go of which each request has `each`: behind its `firsts` i32[B] in `pages`
    i32[B, n], and those beyond its `lengths` i32[B] to the `dummy_page`."""

    pages: Tensor
    lengths: Tensor
    firsts: Tensor
    each: int
    dummy_page: int


def place(
    parts: Sequence[JoinedHeads],
    *,
    keys: Tensor,
    values: Tensor,
    to: Tensor | Behind,
) -> Tensor:
    """Queries [R, Hq, D] of joined products that are together all R rows of a call.

    `keys`, `values` are one layer's [pages, page, Hkv, D]. `to` are rows i64[R] of the pool, or how
    to find them.
    """
    width, first = keys.shape[-1], parts[0]
    total = sum(part.qkv.shape[0] for part in parts)
    q = torch.empty((total, first.count, width), dtype=first.qkv.dtype, device=keys.device)
    for heads in parts:
        _launch(heads, q, keys, values, to)
    return q


def _launch(
    heads: JoinedHeads,
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    to: Tensor | Behind,
) -> None:
    _, page_size, kv_heads, width = keys.shape
    qkv, count = heads.qkv, heads.count + 2 * kv_heads
    assert qkv.is_contiguous() and qkv.shape[1] == count * width, list(qkv.shape)
    q_norm, k_norm = heads.norms if heads.norms is not None else (qkv, qkv)
    slots = triton.next_power_of_2(count)
    behind = to if isinstance(to, Behind) else None
    place_heads[(qkv.shape[0],)](
        qkv,
        *heads.turns,
        q_norm,
        k_norm,
        heads.at if heads.at is not None else qkv,
        to if isinstance(to, Tensor) else qkv,
        *((behind.pages, behind.lengths, behind.firsts) if behind is not None else (qkv,) * 3),
        q,
        keys,
        values,
        behind.pages.stride(0) if behind is not None else 0,
        behind.dummy_page if behind is not None else 0,
        behind.each if behind is not None else 1,
        heads.eps,
        HEADS=heads.count,
        KV_HEADS=kv_heads,
        D=width,
        SLOTS=slots,
        HALVES=heads.halves,
        NORMED=heads.norms is not None,
        SOME=heads.at is not None,
        FOLLOWS=behind is not None,
        PAGE=page_size,
        num_warps=4 if slots * width <= 4096 else 8,
    )

"""Queries and keys of a joined product, turned: bf16[R, 3 H D] → [R, 2 H, D].

A number of a head is turned with its neighbour, by angles of its own. Values stay where they are.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _turn_heads(
    qkv, cosines, sines, out, rows, stride,
    HEADS: tl.constexpr, D: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, SLOTS)[:, None]
    within = tl.arange(0, D)
    is_first = within % 2 == 0
    partner = tl.where(is_first, within + 1, within - 1)
    there = (head < 2 * HEADS) & (within < D)[None, :]
    at = qkv + row * stride + head * D
    x = tl.load(at + within[None, :], mask=there, other=0.0)
    y = tl.load(at + partner[None, :], mask=there, other=0.0).to(tl.float32)
    angle = row % rows * D + within
    cosine = tl.load(cosines + angle)[None, :]
    sine = tl.load(sines + angle)[None, :]
    turned = x.to(tl.float32) * cosine + tl.where(is_first[None, :], -y, y) * sine
    to = out + row * 2 * HEADS * D + head * D + within[None, :]
    tl.store(to, turned.to(x.dtype), mask=there)


def turn_heads(qkv: Tensor, turns: tuple[Tensor, Tensor], *, heads: int) -> Tensor:
    """[R, 2, H, D] of `qkv` [R, 3 H D]; cosines and sines f32[N, D] are those of N rows that come
    again and again. D is a power of two."""
    count, width = qkv.shape[0], turns[0].shape[-1]
    assert qkv.stride(1) == 1 and qkv.shape[1] == 3 * heads * width
    out = torch.empty((count, 2, heads, width), dtype=qkv.dtype, device=qkv.device)
    slots = triton.next_power_of_2(2 * heads)
    _turn_heads[(count,)](
        qkv,
        *turns,
        out,
        turns[0].shape[0],
        qkv.stride(0),
        HEADS=heads,
        D=width,
        SLOTS=slots,
        num_warps=4 if slots * width <= 4096 else 8,
    )
    return out

"""What stands between matrix products, a row at a time: residuals with norms, gated activations.

Each is one pass over its rows where plain torch takes several. Sums are in float32; what is kept is
rounded where plain torch would round it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

RMS = 0
LAYER = 1
# A root-mean-square norm whose scale and shift a row of its own gives.
TIMED = 2


@triton.jit
def _added_normed(
    x, y, gate, scale, shift, total, normed, eps, width, each, given_stride,
    KIND: tl.constexpr, PLUS: tl.constexpr, GATED: tl.constexpr, ADDS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < width
    old = tl.load(x + row * width + at, mask=there, other=0.0)
    value = old.to(tl.float32)
    given = row // each * given_stride
    if ADDS:
        more = tl.load(y + row * width + at, mask=there, other=0.0).to(tl.float32)
        if GATED:
            by = tl.load(gate + given + at, mask=there, other=0.0).to(tl.float32)
            more = (more * by).to(old.dtype).to(tl.float32)
        sum_ = (value + more).to(old.dtype)
        tl.store(total + row * width + at, sum_, mask=there)
        value = sum_.to(tl.float32)
    if KIND == 1:
        value -= tl.sum(tl.where(there, value, 0.0)) / width
    square = tl.sum(tl.where(there, value * value, 0.0)) / width
    value *= tl.rsqrt(square + eps)
    if KIND == 2:
        value *= 1.0 + tl.load(scale + given + at, mask=there, other=0.0).to(tl.float32)
        value += tl.load(shift + given + at, mask=there, other=0.0).to(tl.float32)
    else:
        value *= PLUS + tl.load(scale + at, mask=there, other=0.0).to(tl.float32)
        if KIND == 1:
            value += tl.load(shift + at, mask=there, other=0.0).to(tl.float32)
    tl.store(normed + row * width + at, value.to(old.dtype), mask=there)


def added_normed(
    x: Tensor,
    y: Tensor | None,
    *,
    kind: int,
    scale: Tensor,
    shift: Tensor | None = None,
    gate: Tensor | None = None,
    plus: float = 0.0,
    eps: float,
    each: int = 1,
) -> tuple[Tensor, Tensor]:
    """`x` + `y` (times `gate`), and its norm: [R, D] each.

    `scale` and `shift` are [D]; of a TIMED norm, as `gate`, [B, D] for `each` rows one behind the
    other, with any stride between the B. `plus` is added to `scale`.
    """
    rows, width = x.shape
    assert x.is_contiguous() and (y is None or y.is_contiguous())
    total = torch.empty_like(x) if y is not None else x
    normed = torch.empty_like(x)
    strides = {t.stride(0) for t in (gate, scale, shift) if t is not None and t.dim() == 2}
    assert len(strides) < 2, "what rows are given lies side by side"
    block = triton.next_power_of_2(width)
    _added_normed[(rows,)](
        x,
        y if y is not None else x,
        gate if gate is not None else x,
        scale,
        shift if shift is not None else x,
        total,
        normed,
        eps,
        width,
        each,
        next(iter(strides), 0),
        KIND=kind,
        PLUS=plus,
        GATED=gate is not None,
        ADDS=y is not None,
        BLOCK=block,
        num_warps=4 if block <= 2048 else 8,
        # A product that is added may not stay unrounded, as fused it would.
        enable_fp_fusion=False,
    )
    return total, normed


@triton.jit
def _gated(joined, out, width, TANH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = at < width
    gate = tl.load(joined + row * 2 * width + at, mask=there, other=0.0)
    up = tl.load(joined + row * 2 * width + width + at, mask=there, other=0.0).to(tl.float32)
    g = gate.to(tl.float32)
    if TANH:
        # gelu(x) by tanh: x times the logistic function of twice what tanh is given.
        inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
        act = g / (1.0 + tl.exp(-2.0 * inner))
    else:
        act = g / (1.0 + tl.exp(-g))
    made = act.to(gate.dtype).to(tl.float32) * up
    tl.store(out + row * width + at, made.to(gate.dtype), mask=there)


def gated(joined: Tensor, *, tanh: bool) -> Tensor:
    """`act(gate) * up` [R, D] of `joined` [R, 2 D], gate first; silu, or gelu by `tanh`."""
    rows, double = joined.shape
    assert joined.is_contiguous()
    width = double // 2
    out = torch.empty((rows, width), dtype=joined.dtype, device=joined.device)
    block = min(2048, triton.next_power_of_2(width))
    _gated[(rows, triton.cdiv(width, block))](
        joined, out, width, TANH=tanh, BLOCK=block, num_warps=4
    )
    return out

"""Rows that a chain of kernels leaves → the same, normed: for who reads them as they are."""

import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous


@triton.jit
def norm_row(
    residual,
    gain,
    squares,
    parts,
    out,
    eps,
    B: tl.constexpr,
    W: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    inside = columns < W
    part = tl.arange(0, PARTS)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    total = tl.sum(tl.load(squares + part * B + row, mask=part < parts, other=0.0), axis=0)
    x = tl.load(residual + row * W + columns, mask=inside, other=0.0)
    x *= tl.rsqrt(total / W + eps) * tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * W + columns, x.to(out.dtype.element_ty), mask=inside)


def normed_rows(
    residual: Tensor, gain: Tensor, squares: Tensor, out: Tensor, *, eps: float, chained: bool
) -> None:
    """`residual` f32[B, W] with the parts of its sums of squares f32[P, B] into `out` [B, W]."""
    batch, width = residual.shape
    norm_row[(batch,)](
        residual,
        gain,
        squares,
        squares.shape[0],
        out,
        eps,
        B=batch,
        W=width,
        COLUMNS=triton.next_power_of_2(width),
        PARTS=triton.next_power_of_2(squares.shape[0]),
        CHAINED=chained,
        num_warps=4,
        launch_pdl=chained,
    )


@triton.jit
def rejoin_row(
    part,
    residual,
    gain,
    h,
    squares,
    W: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    inside = columns < W
    at = row * W + columns
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    x = tl.load(residual + at, mask=inside, other=0.0) + tl.load(part + at, mask=inside, other=0.0)
    tl.store(residual + at, x, mask=inside)
    tl.store(part + at, tl.zeros((COLUMNS,), dtype=tl.float32), mask=inside)
    scaled = x * tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(h + at, scaled.to(h.dtype.element_ty), mask=inside)
    tl.store(squares + row, tl.sum(x * x, axis=0))


def rejoin_rows(
    part: Tensor, *, residual: Tensor, gain: Tensor, h: Tensor, squares: Tensor, chained: bool
) -> None:
    """Adds `part` f32[B, W], what all parts of a group have made, to `residual`, and empties it.

    Then `h` [B, W] is the residual times `gain` [W], `squares` f32[1, B] its sums of squares.
    """
    batch, width = residual.shape
    rejoin_row[(batch,)](
        part,
        residual,
        gain,
        h,
        squares,
        W=width,
        COLUMNS=triton.next_power_of_2(width),
        CHAINED=chained,
        num_warps=4,
        launch_pdl=chained,
    )

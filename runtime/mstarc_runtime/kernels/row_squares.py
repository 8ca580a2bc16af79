"""The sums of squares that rows bring and leave: parts f32[P, B], of which a norm makes its factor.

What a product adds to rows is stored here, too, with what the next product needs of them.
"""

import triton
import triton.language as tl


@triton.jit
def squares_of(squares, parts, row, B: tl.constexpr, PARTS: tl.constexpr):
    """The parts of the sums of squares of rows `row` i32[R]: f32[PARTS, R]."""
    part = tl.arange(0, PARTS)
    return tl.load(
        squares + part[:, None] * B + row[None, :],
        mask=(part < parts)[:, None] & (row < B)[None, :],
        other=0.0,
    )


@triton.jit
def factors_of(squares, parts, row, B: tl.constexpr, W: tl.constexpr, eps, PARTS: tl.constexpr):
    """1 / RMS of rows `row` i32[R]: f32[R]."""
    return tl.rsqrt(tl.sum(squares_of(squares, parts, row, B, PARTS), axis=0) / W + eps)


@triton.jit
def leave_rows(
    sums, gains, residual, out, squares_out, tile, batch, to, where, B: tl.constexpr
):  # fmt: skip
    """Stores a tile f32[R, b] of rows `batch` at `to`, `where` there are any; the same times
    `gains` f32[R]; and the tile's part of their squares."""
    tl.store(residual + to, sums, mask=where)
    tl.store(out + to, (sums * gains[:, None]).to(out.dtype.element_ty), mask=where)
    squared = tl.sum(tl.where(where, sums * sums, 0.0), axis=0)
    tl.store(squares_out + tile * B + batch, squared, mask=batch < B)

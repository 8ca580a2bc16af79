"""The first rows of a step: token ids → the residual, and what the first matrix needs of it."""

import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous


@triton.jit
def embed_rows(
    tokens,
    table,
    gain,
    residual,
    h,
    squares,
    B: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHAINED: tl.constexpr,
):
    part = tl.program_id(0)
    row = tl.program_id(1)
    columns = part * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < WIDTH
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    token = tl.load(tokens + row)
    x = tl.load(table + token * WIDTH + columns, mask=inside, other=0.0).to(tl.float32)
    scaled = x * tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(residual + row * WIDTH + columns, x, mask=inside)
    tl.store(h + row * WIDTH + columns, scaled.to(h.dtype.element_ty), mask=inside)
    tl.store(squares + part * B + row, tl.sum(x * x, axis=0))


COLUMNS = 1024


def embed(
    tokens: Tensor,
    table: Tensor,
    gain: Tensor,
    *,
    residual: Tensor,
    h: Tensor,
    squares: Tensor,
    chained: bool,
) -> None:
    """`tokens` i64[B] of `table` [V, W]: `residual` f32[B, W]; `h` [B, W], times `gain` [W];
    `squares` f32[ceil(W / 1024), B]."""
    batch, width = residual.shape
    embed_rows[(triton.cdiv(width, COLUMNS), batch)](
        tokens,
        table,
        gain,
        residual,
        h,
        squares,
        B=batch,
        WIDTH=width,
        COLUMNS=COLUMNS,
        CHAINED=chained,
        num_warps=4,
        launch_pdl=chained,
    )


def embedding_parts(width: int) -> int:
    """Rows of `squares`."""
    return int(triton.cdiv(width, COLUMNS))

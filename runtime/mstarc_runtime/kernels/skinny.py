"""A weight matrix times a few rows: kernels that read the weights once, at the bus's speed.

`h` bf16[B, K] are the rows, `weight` bf16[N, K]. A row may come before its RMS norm is applied:
then it carries the norm's gain already, and `squares` f32[P, B] are the parts of its sum of
squares; the factor goes onto the product, which is the same number.

    project      bf16[B, N]                               queries, keys and values
    gate         bf16[B, N / 2]: silu(first) * second     the two halves of `weight` side by side
    residual     residual += product, and what the next matrix needs: h, squares
    logits       f32[B, N]

One row: each block takes a few rows of the weights, whole, and adds in the order of the columns.
More rows, where their shape says so: likewise (see `several_rows` and `spread_rows`).
Else: the tensor cores, columns split over blocks; the block that comes last adds the parts in
their order. So a row's numbers depend on the bucket, never on its neighbours or on timing.

A kernel starts while the one before it ends, and asks for its weights then (see `dependent`).
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, ask_for, wait_for_previous
from mstarc_runtime.kernels.kinds import GATE, PROJECT, RESIDUAL
from mstarc_runtime.kernels.row_squares import leave_rows, squares_of
from mstarc_runtime.kernels.several_rows import several_rows
from mstarc_runtime.kernels.spread_rows import spread_rows

_ASKED_BYTES = 64 << 10
_ASKED_IN_ALL = 24 << 20
"""What one block and all ask for of their weights before they wait: the cache holds twice that."""


@triton.jit
def one_row(
    h,
    squares,
    parts,
    weight,
    out,
    residual,
    gain,
    squares_out,
    N,
    eps,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
    KIND: tl.constexpr,
    NORMED: tl.constexpr,
    CHAINED: tl.constexpr,
):
    block = tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    inside = rows < N
    read = tl.where(inside, rows, N - 1)
    pointers = weight + read[:, None].to(tl.int64) * K + columns[None, :]
    half = N.to(tl.int64) * K
    allow_next(CHAINED)
    a = tl.load(pointers, eviction_policy="evict_first")
    if KIND == GATE:
        b = tl.load(pointers + half, eviction_policy="evict_first")
    wait_for_previous(CHAINED)
    # What is needed behind the loop is asked for before it: its way is as long as the loop's last.
    if NORMED:
        part = tl.arange(0, PARTS)
        squared = tl.load(squares + part, mask=part < parts, other=0.0)
    if KIND == RESIDUAL:
        before = tl.load(residual + rows, mask=inside, other=0.0)
        gains = tl.load(gain + rows, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(h + columns).to(tl.float32)
    sums = a.to(tl.float32) * x[None, :]
    if KIND == GATE:
        ups = b.to(tl.float32) * x[None, :]
    for first in tl.static_range(COLUMNS, K, COLUMNS):
        a = tl.load(pointers + first, eviction_policy="evict_first")
        x = tl.load(h + first + columns).to(tl.float32)
        sums += a.to(tl.float32) * x[None, :]
        if KIND == GATE:
            b = tl.load(pointers + half + first, eviction_policy="evict_first")
            ups += b.to(tl.float32) * x[None, :]
    product = tl.sum(sums, axis=1)
    if NORMED:
        factor = tl.rsqrt(tl.sum(squared, axis=0) / K + eps)
        product *= factor
    if KIND == PROJECT:
        tl.store(out + rows, product.to(out.dtype.element_ty), mask=inside)
    elif KIND == GATE:
        up = tl.sum(ups, axis=1)
        if NORMED:
            up *= factor
        product = product / (1.0 + tl.exp(-product)) * up
        tl.store(out + rows, product.to(out.dtype.element_ty), mask=inside)
    elif KIND == RESIDUAL:
        product += before
        tl.store(residual + rows, product, mask=inside)
        tl.store(out + rows, (product * gains).to(out.dtype.element_ty), mask=inside)
        tl.store(squares_out + block, tl.sum(tl.where(inside, product * product, 0.0), axis=0))
    else:
        tl.store(out + rows, product, mask=inside)


@triton.jit
def few_rows(
    h,
    squares,
    parts,
    weight,
    out,
    residual,
    gain,
    squares_out,
    partial,
    arrived,
    N,
    eps,
    B: tl.constexpr,
    WIDTH: tl.constexpr,
    K: tl.constexpr,
    SPLIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ASKED: tl.constexpr,
    STAGES: tl.constexpr,
    PARTS: tl.constexpr,
    KIND: tl.constexpr,
    NORMED: tl.constexpr,
    CHAINED: tl.constexpr,
):
    tile = tl.program_id(0)
    split = tl.program_id(1)
    SPAN: tl.constexpr = K // SPLIT
    rows = tile * ROWS + tl.arange(0, ROWS)
    inside = rows < N
    read = tl.where(inside, rows, N - 1)
    columns = tl.arange(0, COLUMNS)
    batch = tl.arange(0, WIDTH)
    is_row = batch < B
    first = split * SPAN
    half = N.to(tl.int64) * K
    a_at = weight + read[:, None].to(tl.int64) * K + first + columns[None, :]
    allow_next(CHAINED)
    if ASKED > 0:
        # A line holds 64 weights.
        line = tl.arange(0, COLUMNS // 64) * 64
        lines = weight + read[:, None].to(tl.int64) * K + first + line[None, :]
        for step in tl.static_range(0, ASKED, COLUMNS):
            ask_for(lines + step, CHAINED)
            if KIND == GATE:
                ask_for(lines + half + step, CHAINED)
    wait_for_previous(CHAINED)
    where = inside[:, None] & is_row[None, :]
    to = batch[None, :] * N + rows[:, None]
    # What is needed behind the loop is asked for before it, so that the end waits for nothing.
    if NORMED:
        # Of many parts no more than the rows there are, as they stay in registers.
        NARROW: tl.constexpr = 4 if B <= 4 else WIDTH
        squared = squares_of(squares, parts, tl.arange(0, NARROW), B, PARTS)
    if KIND == RESIDUAL:
        before = tl.load(residual + to, mask=where, other=0.0)
        gains = tl.load(gain + read).to(tl.float32)
    x_at = h + tl.where(is_row, batch, 0)[None, :] * K + first + columns[:, None]
    sums = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    ups = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    for step in tl.range(0, SPAN, COLUMNS, num_stages=STAGES):
        x = tl.load(x_at + step)
        a = tl.load(a_at + step, eviction_policy="evict_first")
        sums = tl.dot(a, x, sums)
        if KIND == GATE:
            b = tl.load(a_at + half + step, eviction_policy="evict_first")
            ups = tl.dot(b, x, ups)
    is_last = True
    if SPLIT > 1:
        # [tile, split, row of the batch, row of the weights]
        own = ((tile * SPLIT + split) * WIDTH + batch)[None, :] * ROWS + tl.arange(0, ROWS)[:, None]
        tl.store(partial + own, sums)
        if KIND == GATE:
            shift = tl.num_programs(0) * SPLIT * WIDTH * ROWS
            tl.store(partial + shift + own, ups)
        tl.debug_barrier()
        is_last = tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLIT - 1
    if is_last:
        if SPLIT > 1:
            base = (tile * SPLIT * WIDTH + batch)[None, :] * ROWS + tl.arange(0, ROWS)[:, None]
            sums = tl.load(partial + base, cache_modifier=".cg")
            for other in tl.static_range(1, SPLIT):
                sums += tl.load(partial + other * WIDTH * ROWS + base, cache_modifier=".cg")
            if KIND == GATE:
                shift = tl.num_programs(0) * SPLIT * WIDTH * ROWS
                ups = tl.load(partial + shift + base, cache_modifier=".cg")
                for other in tl.static_range(1, SPLIT):
                    ups += tl.load(
                        partial + shift + other * WIDTH * ROWS + base, cache_modifier=".cg"
                    )
            tl.store(arrived + tile, 0)
        if NORMED:
            factor = tl.rsqrt(tl.sum(squared, axis=0) / K + eps)
            if NARROW < WIDTH:
                is_its = batch[:, None] == tl.arange(0, NARROW)[None, :]
                factor = tl.sum(tl.where(is_its, factor[None, :], 0.0), axis=1)
            sums *= factor[None, :]
            ups *= factor[None, :]
        if KIND == PROJECT:
            tl.store(out + to, sums.to(out.dtype.element_ty), mask=where)
        elif KIND == GATE:
            sums = sums / (1.0 + tl.exp(-sums)) * ups
            tl.store(out + to, sums.to(out.dtype.element_ty), mask=where)
        elif KIND == RESIDUAL:
            sums += before
            leave_rows(sums, gains, residual, out, squares_out, tile, batch, to, where, B)
        else:
            tl.store(out + to, sums, mask=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a product is cut. `rows` of the weights a block, `columns` a pass, `split` blocks along
    the columns (more than one row only), `stages` passes under way, `warps` of a block.

    With `held` passes in registers it is two to four rows through `several_rows`, or any number
    through `spread_rows`: then `columns` are those of a warp."""

    rows: int
    columns: int
    warps: int
    split: int = 1
    stages: int = 4
    held: int = 0
    spread: bool = False

    @property
    def step(self) -> int:
        """Columns that a matrix must have a multiple of."""
        warps = self.warps if self.spread else 1
        return self.split * self.columns * warps * max(1, self.held)


class Product:
    """One weight matrix and its launch, for a fixed number of rows.

    `count` is N, for `GATE` the outputs: half the rows of `weight`.
    """

    def __init__(
        self,
        weight: Tensor,
        *,
        kind: tl.constexpr,
        batch: int,
        shape: Shape,
        chained: bool,
    ) -> None:
        self.weight, self.kind, self.batch, self.shape = weight, kind, batch, shape
        self.chained = chained
        self.count = weight.shape[0] // (2 if kind == GATE else 1)
        self.inner = weight.shape[1]
        self.tiles = triton.cdiv(self.count, shape.rows)
        assert self.inner % shape.step == 0, (self.inner, shape)
        self.width = max(16, triton.next_power_of_2(batch))
        blocks = self.tiles * shape.split * (2 if kind == GATE else 1)
        most = min(_ASKED_BYTES, _ASKED_IN_ALL // blocks) // (2 * shape.rows * shape.columns)
        span = self.inner // shape.split
        self.asked = min(span, most * shape.columns) if shape.columns >= 64 else 0
        device = weight.device
        size = self.tiles * shape.split * self.width * shape.rows if shape.split > 1 else 1
        self.partial = torch.empty(
            size * (2 if kind == GATE else 1), dtype=torch.float32, device=device
        )
        self.arrived = torch.zeros(self.tiles, dtype=torch.int32, device=device)

    def __call__(
        self,
        h: Tensor,
        out: Tensor,
        *,
        squares: Tensor | None = None,
        residual: Tensor | None = None,
        gain: Tensor | None = None,
        squares_out: Tensor | None = None,
        eps: float = 0.0,
    ) -> None:
        """`h` bf16[B, K] into `out`; shapes of the others are in the module's text."""
        shape, normed = self.shape, squares is not None
        given = h if squares is None else squares
        parts = 1 if squares is None else squares.shape[0]
        constants = {
            "K": self.inner,
            "ROWS": shape.rows,
            "COLUMNS": shape.columns,
            "PARTS": triton.next_power_of_2(parts),
            "KIND": self.kind.value,
            "NORMED": normed,
            "CHAINED": self.chained,
            "num_warps": shape.warps,
            "launch_pdl": self.chained,
        }
        tensors = (
            h,
            given,
            parts,
            self.weight,
            out,
            h if residual is None else residual,
            h if gain is None else gain,
            h if squares_out is None else squares_out,
        )
        if self.batch == 1:
            one_row[(self.tiles,)](*tensors, self.count, eps, **constants)
            return
        if shape.spread:
            spread_rows[(self.tiles,)](
                *tensors,
                self.count,
                eps,
                B=self.batch,
                WIDTH=max(8, triton.next_power_of_2(self.batch)),
                WARPS=shape.warps,
                HELD=shape.held,
                num_stages=1,
                **constants,
            )
            return
        if shape.held:
            several_rows[(self.tiles,)](
                h.view(torch.int64),
                given,
                parts,
                self.weight.view(torch.int64),
                *tensors[4:],
                self.count,
                eps,
                B=self.batch,
                HELD=shape.held,
                EARLY=parts > 128 * shape.warps,
                **constants,
            )
            return
        few_rows[(self.tiles, shape.split)](
            *tensors,
            self.partial,
            self.arrived,
            self.count,
            eps,
            B=self.batch,
            WIDTH=self.width,
            SPLIT=shape.split,
            ASKED=self.asked,
            STAGES=shape.stages,
            **constants,
        )

"""Between the products of a tower of float32: residuals with norms, gates and attention.

What a product takes is made ready by the kernel before it: rows f32[R, K] as they are, or split
(`Split`), [R, parts of K + 16]: numbers of fewer bits that add up, of which tensor cores make
products that add up to one of float32. The last columns stand for a bias, which is split alike.

- Of three numbers of bfloat16, all 24 bits are kept; six of the nine products of parts are kept,
  the smallest ones first, and those that are left out are below 2 ** -24 of the whole.
- Of two of float16, 22 bits; three of the four products. One alone has 11, as many as TF32.
  float16 has a range of its own: rows are multiplied by a power of two before, and so is a matrix,
  and whoever reads their product divides it again. `scale_below` chooses it by how large numbers
  can be at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log2

import torch
import triton
import triton.language as tl
from torch import Tensor

# Columns behind the parts: ones that take a bias.
_TAIL = 16
# Columns of the largest parts that are summed at once.
_LONGEST = 2176
# Numbers of float16 are kept below this: half of what it can hold.
_LARGEST = 2.0**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How numbers are split: as `parts` products, after they were multiplied by `scale`, a power of
    two. 0 parts are rows of float32 as they are."""

    parts: int = 0
    scale: float = 1.0

    @property
    def is_float16(self) -> bool:
        return self.parts in (1, 3)

    @property
    def dtype(self) -> torch.dtype:
        if self.parts == 0:
            return torch.float32
        return torch.float16 if self.is_float16 else torch.bfloat16

    def columns(self, width: int) -> int:
        return self.parts * width + _TAIL if self.parts else width


def scale_below(bound: float) -> float:
    """The power of two by which numbers up to `bound` are multiplied for float16."""
    return 2.0 ** min(15, floor(log2(_LARGEST / max(bound, 2.0**-60))))


WHOLE = Split()


@triton.jit
def put(out, row, at, there, value, scale, K, SPLIT: tl.constexpr):
    """Writes numbers of rows as the product takes them."""
    if SPLIT == 0:
        tl.store(out + row * K + at, value, mask=there)
    else:
        to = out + row * (SPLIT * K + 16) + at
        if SPLIT == 6:
            first = value.to(tl.bfloat16)
            rest = value - first.to(tl.float32)
            second = rest.to(tl.bfloat16)
            third = (rest - second.to(tl.float32)).to(tl.bfloat16)
            tl.store(to, third, mask=there)
            tl.store(to + K, second, mask=there)
            tl.store(to + 2 * K, first, mask=there)
            tl.store(to + 3 * K, second, mask=there)
            tl.store(to + 4 * K, first, mask=there)
            tl.store(to + 5 * K, first, mask=there)
        else:
            value *= scale
            first = value.to(tl.float16)
            if SPLIT == 3:
                tl.store(to, (value - first.to(tl.float32)).to(tl.float16), mask=there)
                tl.store(to + K, first, mask=there)
            tl.store(to + (SPLIT - 1) * K, first, mask=there)


@triton.jit
def put_ones(out, row, tail, there, scale, K, SPLIT: tl.constexpr):
    """Columns `tail` 0 .. 15 behind the parts: a one for each part of the bias."""
    BIASES: tl.constexpr = 3 if SPLIT == 6 else 2
    ones = tl.where(row * 0 + tail < BIASES, scale, 0.0).to(out.dtype.element_ty)
    tl.store(out + row * (SPLIT * K + 16) + SPLIT * K + tail, ones, mask=there)


@triton.jit
def _added_normed(
    x, more, weight, bias, total, out, eps, unit, scale, K,
    ADDS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < K
    value = tl.load(x + row * K + at, mask=there, other=0.0)
    if ADDS:
        value += tl.load(more + row * K + at, mask=there, other=0.0) * unit
        tl.store(total + row * K + at, value, mask=there)
    value = tl.where(there, value - tl.sum(value) / K, 0.0)
    value *= tl.rsqrt(tl.sum(value * value) / K + eps)
    value *= tl.load(weight + at, mask=there, other=0.0)
    value += tl.load(bias + at, mask=there, other=0.0)
    put(out, row, at, there, value, scale, K, SPLIT)
    if SPLIT > 0:
        tail = tl.arange(0, 16)
        put_ones(out, row, tail, tail < 16, scale, K, SPLIT)


@triton.jit
def _gelu(inner, out, unit, scale, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = at < K
    g = tl.load(inner + row * K + at, mask=there, other=0.0) * unit
    # gelu(x) by tanh: x times the logistic function of twice what tanh is given.
    act = g / (1.0 + tl.exp(-1.5957691216057308 * (g + 0.044715 * g * g * g)))
    put(out, row, at, there, act, scale, K, SPLIT)
    if SPLIT > 0:
        tail = tl.arange(0, 16)
        put_ones(out, row, tail, (tail < 16) & (tl.program_id(1) == 0), scale, K, SPLIT)


def operand(rows: int, width: int, device: torch.device, split: Split) -> Tensor:
    return torch.empty((rows, split.columns(width)), dtype=split.dtype, device=device)


def added_normed(
    x: Tensor,
    more: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    *,
    eps: float,
    unit: float = 1.0,
    split: Split = WHOLE,
) -> tuple[Tensor, Tensor]:
    """`x` + `unit` * `more` f32[R, K], and a layer's norm of it as a product takes it."""
    rows, width = x.shape
    assert x.is_contiguous() and (more is None or more.is_contiguous())
    total = x if more is None else torch.empty_like(x)
    out = operand(rows, width, x.device, split)
    block = triton.next_power_of_2(width)
    _added_normed[(rows,)](
        x,
        x if more is None else more,
        weight,
        bias,
        total,
        out,
        eps,
        unit,
        split.scale,
        width,
        ADDS=more is not None,
        SPLIT=split.parts,
        BLOCK=block,
        num_warps=4 if block <= 2048 else 8,
    )
    return total, out


def gelu(inner: Tensor, *, unit: float = 1.0, split: Split = WHOLE) -> Tensor:
    """`gelu(unit * inner)` by tanh, of f32[R, K], as a product takes it."""
    rows, width = inner.shape
    assert inner.is_contiguous()
    out = operand(rows, width, inner.device, split)
    block = min(1024, triton.next_power_of_2(width))
    _gelu[(rows, triton.cdiv(width, block))](
        inner, out, unit, split.scale, width, SPLIT=split.parts, BLOCK=block, num_warps=4
    )
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitMatrix:
    """A matrix that split rows are multiplied with, [N, parts of K + 16], times `scale`."""

    values: Tensor
    scale: float


def split_matrix(weight: Tensor, bias: Tensor, parts: int) -> SplitMatrix:
    """Of `weight` f32[N, K] and `bias` f32[N]."""
    split = Split(parts=parts)
    if split.is_float16:
        bound = max(float(weight.abs().max()), float(bias.abs().max()))
        split = Split(parts=parts, scale=scale_below(bound))
    pieces, tails = (_pieces(x * split.scale, split) for x in (weight, bias))
    tail = torch.zeros(len(weight), _TAIL, dtype=split.dtype, device=weight.device)
    for column, piece in enumerate(tails):
        tail[:, column] = piece
    order = {1: (0,), 3: (0, 1, 0), 6: (0, 1, 2, 0, 1, 0)}[parts]
    values = torch.cat((*(pieces[number] for number in order), tail), dim=1)
    return SplitMatrix(values=values, scale=split.scale)


def split_product(rows: Tensor, matrix: Tensor, parts: int) -> Tensor:
    """f32[R, N] of split rows and a split matrix.

    Tensor cores cut off what does not fit behind a sum, so that long sums drift. Of the product of
    the first parts, which is nearly all of it, `_LONGEST` columns are summed at once, therefore.
    """
    end = rows.shape[1]
    inner = (end - _TAIL) // parts
    cuts = [*range(end - _TAIL - inner + _LONGEST, end - _TAIL - _LONGEST // 2, _LONGEST), end]
    if parts == 1:
        cuts = [end]
    total = torch.mm(rows[:, : cuts[0]], matrix[:, : cuts[0]].T, out_dtype=torch.float32)
    for first, last in pairwise(cuts):
        total += torch.mm(rows[:, first:last], matrix[:, first:last].T, out_dtype=torch.float32)
    return total


def _pieces(x: Tensor, split: Split) -> Sequence[Tensor]:
    """Numbers that add up to `x`, the largest first."""
    pieces = []
    for _ in range(2 if split.is_float16 else 3):
        piece = x.to(split.dtype)
        x = x - piece.float()
        pieces.append(piece)
    return pieces

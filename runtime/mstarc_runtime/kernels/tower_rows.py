"""Between the products of a tower of float32: residuals with norms, gates and attention.

What a product takes is made ready by the kernel before it: rows f32[R, K] as they are, or, where
products of bfloat16 add up to one of float32, split: bf16[R, 6 K + 16]. A number is the sum of
three of bfloat16, of which all bits of its 24 are kept; six of the nine products of parts are kept,
the smallest ones first, and those that are left out are below 2 ** -24 of the whole. The last
columns stand for a bias, which is split alike.
"""

from itertools import pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

# Columns behind the parts: ones that take a bias.
_TAIL = 16
_PARTS = 6
# Columns of the largest parts that are summed at once.
_LONGEST = 2176


@triton.jit
def _put(out, row, at, there, value, K, SPLIT: tl.constexpr):
    """Writes numbers of rows as the product takes them."""
    if SPLIT:
        first = value.to(tl.bfloat16)
        rest = value - first.to(tl.float32)
        second = rest.to(tl.bfloat16)
        third = (rest - second.to(tl.float32)).to(tl.bfloat16)
        to = out + row * (6 * K + 16) + at
        tl.store(to, third, mask=there)
        tl.store(to + K, second, mask=there)
        tl.store(to + 2 * K, first, mask=there)
        tl.store(to + 3 * K, second, mask=there)
        tl.store(to + 4 * K, first, mask=there)
        tl.store(to + 5 * K, first, mask=there)
    else:
        tl.store(out + row * K + at, value, mask=there)


@triton.jit
def _put_ones(out, row, tail, there, K):
    """Columns `tail` 0 .. 15 behind the parts: a one for each part of the bias."""
    ones = tl.where(row * 0 + tail < 3, 1.0, 0.0).to(tl.bfloat16)
    tl.store(out + row * (6 * K + 16) + 6 * K + tail, ones, mask=there)


@triton.jit
def _added_normed(
    x, more, weight, bias, total, out, eps, K,
    ADDS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < K
    value = tl.load(x + row * K + at, mask=there, other=0.0)
    if ADDS:
        value += tl.load(more + row * K + at, mask=there, other=0.0)
        tl.store(total + row * K + at, value, mask=there)
    value = tl.where(there, value - tl.sum(value) / K, 0.0)
    value *= tl.rsqrt(tl.sum(value * value) / K + eps)
    value *= tl.load(weight + at, mask=there, other=0.0)
    value += tl.load(bias + at, mask=there, other=0.0)
    _put(out, row, at, there, value, K, SPLIT)
    if SPLIT:
        tail = tl.arange(0, 16)
        _put_ones(out, row, tail, tail < 16, K)


@triton.jit
def _gelu(inner, out, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = at < K
    g = tl.load(inner + row * K + at, mask=there, other=0.0)
    # gelu(x) by tanh: x times the logistic function of twice what tanh is given.
    act = g / (1.0 + tl.exp(-1.5957691216057308 * (g + 0.044715 * g * g * g)))
    _put(out, row, at, there, act, K, SPLIT)
    if SPLIT:
        tail = tl.arange(0, 16)
        _put_ones(out, row, tail, (tail < 16) & (tl.program_id(1) == 0), K)


@triton.jit
def _split(x, out, K, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < K
    _put(out, row, at, there, tl.load(x + row * K + at, mask=there, other=0.0), K, True)
    tail = tl.arange(0, 16)
    _put_ones(out, row, tail, tail < 16, K)


@triton.jit
def _attend(
    qkv, out, scale, K, rows,
    D: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A block: some rows of one head of one image.

    A head's numbers are `WIDE` and what is left of them, padded to `REST` or none.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1)
    image = tl.program_id(2)
    within = tl.arange(0, WIDE)
    own = within < D
    is_row = (row < rows)[:, None]
    base = qkv + image.to(tl.int64) * rows * 3 * K + head * D
    q = tl.load(
        base + row[:, None] * 3 * K + within[None, :], mask=is_row & own[None, :], other=0.0
    )
    best = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    seen = tl.zeros((M, WIDE), dtype=tl.float32)
    if REST > 0:
        behind = WIDE + tl.arange(0, REST)
        inside = behind < D
        q_rest = tl.load(
            base + row[:, None] * 3 * K + behind[None, :],
            mask=is_row & inside[None, :],
            other=0.0,
        )
        seen_rest = tl.zeros((M, REST), dtype=tl.float32)
    for start in range(0, rows, N):
        other = start + tl.arange(0, N)
        there = other < rows
        at = base + K + other * 3 * K
        k = tl.load(at[None, :] + within[:, None], mask=there[None, :] & own[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision=PRECISION)
        if REST > 0:
            k_rest = tl.load(
                at[None, :] + behind[:, None],
                mask=there[None, :] & inside[:, None],
                other=0.0,
            )
            scores = tl.dot(q_rest, k_rest, scores, input_precision=PRECISION)
        scores = tl.where(there[None, :], scores * (scale * 1.4426950408889634), float("-inf"))
        above = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.exp2(scores - above[:, None])
        fade = tl.exp2(best - above)
        total = total * fade + tl.sum(weights, axis=1)
        v = tl.load(
            at[:, None] + K + within[None, :], mask=there[:, None] & own[None, :], other=0.0
        )
        seen = seen * fade[:, None] + tl.dot(weights, v, input_precision=PRECISION)
        if REST > 0:
            v_rest = tl.load(
                at[:, None] + K + behind[None, :],
                mask=there[:, None] & inside[None, :],
                other=0.0,
            )
            seen_rest = seen_rest * fade[:, None]
            seen_rest += tl.dot(weights, v_rest, input_precision=PRECISION)
        best = above
    number = image.to(tl.int64) * rows + row
    to = out + number[:, None] * K + head * D
    tl.store(to + within[None, :], seen / total[:, None], mask=is_row & own[None, :])
    if REST > 0:
        tl.store(to + behind[None, :], seen_rest / total[:, None], mask=is_row & inside[None, :])


def _operand(rows: int, width: int, device: torch.device, *, split: bool) -> Tensor:
    if split:
        count = _PARTS * width + _TAIL
        return torch.empty((rows, count), dtype=torch.bfloat16, device=device)
    return torch.empty((rows, width), dtype=torch.float32, device=device)


def added_normed(
    x: Tensor, more: Tensor | None, weight: Tensor, bias: Tensor, *, eps: float, split: bool
) -> tuple[Tensor, Tensor]:
    """`x` + `more` f32[R, K], and a layer's norm of it as a product takes it."""
    rows, width = x.shape
    assert x.is_contiguous() and (more is None or more.is_contiguous())
    total = x if more is None else torch.empty_like(x)
    out = _operand(rows, width, x.device, split=split)
    block = triton.next_power_of_2(width)
    _added_normed[(rows,)](
        x,
        x if more is None else more,
        weight,
        bias,
        total,
        out,
        eps,
        width,
        ADDS=more is not None,
        SPLIT=split,
        BLOCK=block,
        num_warps=4 if block <= 2048 else 8,
    )
    return total, out


def gelu(inner: Tensor, *, split: bool) -> Tensor:
    """`gelu(inner)` by tanh, of f32[R, K], as a product takes it."""
    rows, width = inner.shape
    assert inner.is_contiguous()
    out = _operand(rows, width, inner.device, split=split)
    block = min(1024, triton.next_power_of_2(width))
    _gelu[(rows, triton.cdiv(width, block))](
        inner, out, width, SPLIT=split, BLOCK=block, num_warps=4
    )
    return out


def attend(qkv: Tensor, *, images: int, heads: int, split: bool) -> Tensor:
    """What rows of each image see of one another, as a product takes it; `qkv` f32[R, 3 K].

    Products inside are those of TF32, or for split rows the library's of float32.
    """
    count, width = qkv.shape[0], qkv.shape[1] // 3
    assert qkv.is_contiguous()
    rows, head_dim = count // images, width // heads
    if split:
        q, k, v = (
            part.view(images, rows, heads, head_dim).transpose(1, 2)
            for part in qkv.chunk(3, dim=-1)
        )
        seen = functional.scaled_dot_product_attention(q, k, v)
        return split_rows(seen.transpose(1, 2).reshape(count, width))
    out = _operand(count, width, qkv.device, split=False)
    # A head's width as two powers of two: of 72 numbers 80 are multiplied, and not 128.
    wide = max(16, 1 << (head_dim.bit_length() - 1))
    rest = max(0, head_dim - wide)
    tile = 64 if rows > 32 else 16
    _attend[(triton.cdiv(rows, tile), heads, images)](
        qkv,
        out,
        head_dim**-0.5,
        width,
        rows,
        D=head_dim,
        WIDE=wide,
        REST=max(16, triton.next_power_of_2(rest)) if rest else 0,
        M=tile,
        N=tile,
        PRECISION="tf32",
        num_warps=4,
        num_stages=2,
    )
    return out


def split_rows(x: Tensor) -> Tensor:
    """Rows f32[R, K] as a product of split rows takes them."""
    rows, width = x.shape
    assert x.is_contiguous()
    out = _operand(rows, width, x.device, split=True)
    block = triton.next_power_of_2(width)
    _split[(rows,)](x, out, width, BLOCK=block, num_warps=4 if block <= 2048 else 8)
    return out


def split_matrix(weight: Tensor, bias: Tensor) -> Tensor:
    """bf16[N, 6 K + 16] of `weight` f32[N, K] and `bias` f32[N], that split rows are multiplied
    with."""
    first, second, third = _parts(weight)
    tail = torch.zeros(len(weight), _TAIL, dtype=torch.bfloat16, device=weight.device)
    for column, part in enumerate(_parts(bias)):
        tail[:, column] = part
    return torch.cat((first, second, third, first, second, first, tail), dim=1)


def split_product(rows: Tensor, matrix: Tensor) -> Tensor:
    """f32[R, N] of split rows and a split matrix.

    Tensor cores cut off what does not fit behind a sum, so that long sums drift. Of the product of
    the first parts, which is nearly all of it, `_LONGEST` columns are summed at once, therefore.
    """
    end = rows.shape[1]
    inner = (end - _TAIL) // _PARTS
    cuts = [*range(end - _TAIL - inner + _LONGEST, end - _TAIL - _LONGEST // 2, _LONGEST), end]
    total = torch.mm(rows[:, : cuts[0]], matrix[:, : cuts[0]].T, out_dtype=torch.float32)
    for first, last in pairwise(cuts):
        total += torch.mm(rows[:, first:last], matrix[:, first:last].T, out_dtype=torch.float32)
    return total


def _parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first = x.bfloat16()
    rest = x - first.float()
    second = rest.bfloat16()
    return first, second, (rest - second.float()).bfloat16()

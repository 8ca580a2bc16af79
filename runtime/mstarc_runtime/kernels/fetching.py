"""Weights of the next kernel, asked for by the one before it.

A kernel's end is latency: sums go over threads and blocks while the memory bus has nothing to do.
So each block, once its own loads are under way, asks the level-2 cache for a share of the first
columns that the next kernel will read. Nothing waits for it and no number depends on it.

Source: PTX ISA, `cp.async.bulk.prefetch.L2`.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

CHUNK = 256
"""bf16 numbers that one instruction asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Of `weight` bf16[N, K], cut into `splits` spans of columns: the first `columns` of each,
    a multiple of 256 or at most as many."""

    weight: Tensor
    splits: int
    columns: int


def constants_of(ahead: Ahead | None, *, programs: int) -> dict[str, int]:
    """A kernel's constants for `programs` blocks that share what is to be asked for."""
    if ahead is None or ahead.columns == 0:
        sizes = (1, 1, 0, 0, 0)
    else:
        rows, inner = ahead.weight.shape
        chunks = rows * ahead.splits * triton.cdiv(ahead.columns, CHUNK)
        sizes = (inner, ahead.splits, ahead.columns, triton.cdiv(chunks, programs), chunks)
    names = ("NEXT_K", "NEXT_SPLITS", "NEXT_COLUMNS", "NEXT_SHARE", "NEXT_CHUNKS")
    return dict(zip(names, sizes, strict=True)) | {
        "NEXT_LANES": triton.next_power_of_2(max(1, sizes[3]))
    }


@triton.jit
def fetch_ahead(
    weight, program,
    K: tl.constexpr, SPLITS: tl.constexpr, COLUMNS: tl.constexpr, SHARE: tl.constexpr,
    CHUNKS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Asks for the chunks that fall to block `program`: `SHARE` of `CHUNKS`."""
    if SHARE > 0:
        SIZE: tl.constexpr = 256 if COLUMNS > 256 else COLUMNS
        A_SPAN: tl.constexpr = COLUMNS // SIZE
        lane = tl.arange(0, LANES)
        chunk = program * SHARE + lane
        row = chunk // (SPLITS * A_SPAN)
        split = chunk // A_SPAN % SPLITS
        first = split * (K // SPLITS) + chunk % A_SPAN * SIZE
        is_own = ((lane < SHARE) & (chunk < CHUNKS)).to(tl.int32)
        tl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.s32 p, $2, 0; "
            "@p cp.async.bulk.prefetch.L2.global [$1], $3; mov.u32 $0, 0; }",
            "=r,l,r,r",
            [
                weight + row.to(tl.int64) * K + first,
                is_own,
                tl.full((LANES,), SIZE * 2, tl.int32),
            ],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )

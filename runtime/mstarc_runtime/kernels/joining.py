"""Sums of several blocks, joined by the last of them without a lock.

A block leaves its numbers in a buffer that holds `ABSENT` where nothing has come yet; the joining
block reads until all have come, and leaves `ABSENT` behind. That costs one way through the level-2
cache; a counter with its fences costs three. The joining block must be the one that is started
last: those that it waits for run already then, so it cannot keep them from running.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ABSENT = tl.constexpr(-1)
"""As bits of a float32 a NaN that no arithmetic gives."""


def absent(count: int, device: torch.device) -> Tensor:
    """A buffer i32[count] into which nothing has come."""
    return torch.full((count,), ABSENT.value, dtype=torch.int32, device=device)


@triton.jit
def as_bits(values):
    """f32 as the i32 that is left in a buffer; every NaN is the same one, which is not ABSENT."""
    return tl.where(values == values, values, float("nan")).to(tl.int32, bitcast=True)


@triton.jit
def are_missing(bits):
    return tl.max((bits == ABSENT).to(tl.int32), axis=None) > 0


@triton.jit
def when_there(at, mask):
    """f32 at pointers `at`, once all have come; 0 outside `mask`. They are taken away."""
    bits = tl.load(at, mask=mask, other=0, volatile=True)
    while are_missing(bits):
        bits = tl.load(at, mask=mask, other=0, volatile=True)
    tl.store(at, tl.full(bits.shape, ABSENT, tl.int32), mask=mask)
    return bits.to(tl.float32, bitcast=True)

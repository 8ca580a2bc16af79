"""Items of a stream → a ring in the memory of another GPU, written by this one.

Where the ring is stands in a tensor, so that a captured graph goes on when it is another one; while
there is none, nothing is written.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def post_items(
    items, slots, positions, base, slot_stride, last, count,
    SIZE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    number = tl.program_id(1)
    at = tl.load(base)
    slot = tl.load(slots + row)
    position = tl.load(positions + row * count + number)
    whole = tl.arange(0, WIDE)
    inside = whole < SIZE
    if (at != 0) & (slot < last):
        values = tl.load(items + (row * count + number).to(tl.int64) * SIZE + whole, mask=inside)
        ring = at.to(tl.pointer_type(items.dtype.element_ty))
        tl.store(ring + slot * slot_stride + position * SIZE + whole, values, mask=inside)


_SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Post:
    """A ring on another device: `slots` rows of `capacity` items of `size` numbers."""

    def __init__(self, *, capacity: int, size: int, slots: int, device: torch.device) -> None:
        self._capacity, self._size, self._slots = capacity, size, slots
        self._base = torch.zeros(1, dtype=torch.int64, device=device)

    def turn_to(self, address: int) -> None:
        """The ring is at `address` from now on; 0 is nowhere."""
        self._base.fill_(address)

    def __call__(self, slots: Tensor, positions: Tensor, items: Tensor) -> None:
        """Writes `items` [B, n, *item] to `positions` i64[B, n] of `slots` i64[B]."""
        rows, count = positions.shape
        flat = items.reshape(rows * count, -1)
        post_items[(rows, count)](
            flat.view(_SAME_SIZE[flat.element_size()]),
            slots,
            positions,
            self._base,
            self._capacity * self._size,
            self._slots,
            count,
            SIZE=self._size,
            WIDE=triton.next_power_of_2(self._size),
            num_warps=4,
        )

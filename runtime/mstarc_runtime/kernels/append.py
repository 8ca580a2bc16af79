"""Items of a step's rows → their slots' circles of a stream, in one small kernel.

`ring.Ring` does the same by single operations where there is no GPU: an item goes where its slot's
head stands, and the head moves on for rows that send.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous

_SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_MOST_WIDE = 2048
MOST_ITEMS = 32
"""Of a row: one block writes them, one behind the other."""


@triton.jit
def append_items(
    items, row_stride, slots, where, where_stride, heads, storage, count,
    CAPACITY: tl.constexpr, SIZE: tl.constexpr, WIDE: tl.constexpr,
    ASKED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """A row's `count` items of `SIZE` numbers."""
    row = tl.program_id(0)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    slot = tl.load(slots + row)
    head = tl.load(heads + slot)
    step = head * 0 + count
    if ASKED:
        step = tl.where(tl.load(where + row * where_stride) != 0, step, 0)
    whole = tl.arange(0, WIDE)
    # A row that sends nothing writes too, to a place that nobody reads before it is sent.
    for number in range(count):
        to = storage + (slot * CAPACITY + (head + number) % CAPACITY) * SIZE
        given = items + row.to(tl.int64) * row_stride + number * SIZE
        for first in tl.static_range(0, SIZE, WIDE):
            inside = first + whole < SIZE
            tl.store(to + first + whole, tl.load(given + first + whole, mask=inside), mask=inside)
    # All threads have read it before it moves.
    tl.debug_barrier()
    tl.store(heads + slot, head + step)


def append(
    items: Tensor, *, slots: Tensor, heads: Tensor, storage: Tensor, where: Tensor | None
) -> None:
    """`items` [B, n, *item] of rows `slots` i64[B] into `storage` [slots, capacity, *item], where
    `heads` i64[slots] stand; heads move on by n for rows of `where` bool[B], or for all."""
    capacity = storage.shape[1]
    rows, count = items.shape[:2]
    assert count <= MOST_ITEMS, count
    assert items.dtype == storage.dtype, (items.dtype, storage.dtype)
    given = items if items[0].is_contiguous() else items.contiguous()
    kind = _SAME_SIZE[storage.element_size()]
    size = storage[0, 0].numel()
    append_items[(rows,)](
        given.view(kind),
        given.stride(0),
        slots,
        slots if where is None else where.view(torch.int8),
        1 if where is None else where.stride(0),
        heads,
        storage.view(kind),
        count,
        CAPACITY=capacity,
        SIZE=size,
        WIDE=min(_MOST_WIDE, triton.next_power_of_2(size)),
        ASKED=where is not None,
        CHAINED=storage.device.type == "cuda",
        num_warps=4 if size >= 512 else 1,
        launch_pdl=storage.device.type == "cuda",
    )

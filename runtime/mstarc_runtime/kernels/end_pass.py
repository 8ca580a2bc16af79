"""The end of a pass in one small kernel: what `engine.pass_log` says in single operations.

The pass's flags are noted, rows that have stopped become padding, and the others move on to their
next row of the cache.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.engine.flag_columns import COLUMNS, MORE, RAN
from mstarc_runtime.engine.pass_log import PassEnd
from mstarc_runtime.kvcache.mirror import MovingRows


@triton.jit
def _end_pass(
    flags,
    log,
    at,
    alive,
    slots,
    allowed,
    row_slots,
    positions,
    write_rows,
    lengths,
    last_page_lengths,
    offsets,
    pages,
    count,
    turns,
    stride,
    width,
    slot_of_padding,
    page_of_padding,
    LOGS: tl.constexpr,
    TESTED: tl.constexpr,
    MOVES: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
    COLUMNS: tl.constexpr,
    MORE: tl.constexpr,
    RAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.arange(0, BLOCK)
    there = row < count
    lives = tl.load(alive + row, mask=there, other=0) != 0
    if LOGS:
        turn = tl.load(at) % turns
        tl.store(flags + row * COLUMNS + RAN, lives.to(tl.int8), mask=there)
        for column in tl.static_range(COLUMNS):
            if column == RAN:
                flag = lives.to(tl.int8)
            else:
                flag = tl.load(flags + row * COLUMNS + column, mask=there, other=0)
            tl.store(log + (turn * count + row) * COLUMNS + column, flag, mask=there)
        if TESTED:
            lives = lives & (tl.load(flags + row * COLUMNS + MORE, mask=there, other=0) != 0)
            tl.store(alive + row, lives.to(tl.int8), mask=there)
        slot = tl.load(slots + row, mask=there, other=0)
        tl.store(slots + row, tl.where(lives, slot, slot_of_padding), mask=there)
        may = tl.load(allowed + row, mask=there, other=0)
        tl.store(allowed + row, tl.where(lives, may, 0).to(tl.int8), mask=there)
        tl.store(at, turn + 1)
    if MOVES:
        slot = tl.load(row_slots + row, mask=there, other=0)
        tl.store(row_slots + row, tl.where(lives, slot, slot_of_padding), mask=there)
        position = tl.load(positions + row, mask=there, other=0) + ROWS
        tl.store(positions + row, tl.where(lives, position, 0), mask=there)
        length = tl.load(lengths + row, mask=there, other=0) + ROWS
        tl.store(lengths + row, tl.where(lives, length, 1), mask=there)
        offset = tl.where(lives, tl.load(offsets + row, mask=there, other=0) + ROWS, 0)
        tl.store(offsets + row, offset, mask=there)
        tl.store(last_page_lengths + row, offset % SIZE + 1, mask=there)
        table = pages + row.to(tl.int64) * stride
        tl.store(table, page_of_padding, mask=there & (lives == 0))
        column = tl.minimum(offset // SIZE, width - 1)
        page = tl.load(table + column, mask=there & lives, other=page_of_padding)
        tl.store(write_rows + row, page.to(tl.int64) * SIZE + offset % SIZE, mask=there)


def end_pass(end: PassEnd | None, rows: MovingRows | None, alive: Tensor, moved: int) -> None:
    """Notes a pass, and what became of its rows. Without `end` only `rows` move on, by `moved`."""
    some = alive.view(torch.int8)
    padded = end or rows
    assert padded is not None
    _end_pass[(1,)](
        end.flags.view(torch.int8) if end else some,
        end.log.view(torch.int8) if end else some,
        end.at if end else some,
        some,
        end.slots if end else some,
        end.allowed.view(torch.int8) if end else some,
        rows.slots if rows else some,
        rows.positions if rows else some,
        rows.write_rows if rows else some,
        rows.kv_lengths if rows else some,
        rows.last_page_lengths if rows else some,
        rows.write_offsets if rows else some,
        rows.pages if rows else some,
        alive.shape[0],
        end.log.shape[0] if end else 1,
        rows.pages.stride(0) if rows else 0,
        rows.pages.shape[1] if rows else 1,
        padded.padding_slot,
        rows.dummy_page if rows else 0,
        LOGS=end is not None,
        TESTED=end is not None and end.tested,
        MOVES=rows is not None,
        ROWS=moved,
        SIZE=rows.page_size if rows else 1,
        COLUMNS=COLUMNS,
        MORE=MORE,
        RAN=RAN,
        BLOCK=max(16, triton.next_power_of_2(alive.shape[0])),
        num_warps=1,
    )

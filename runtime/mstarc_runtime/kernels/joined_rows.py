"""What every part of a group has made of some rows → their sums, on each of the group's GPUs.

    join      residual += the parts' sum, and what the next matrix needs: h, squares
    exchange  the parts' sum, the first part's, or every part's numbers

A block exchanges `NUMBERS` numbers with its counterparts (`exchange` says how), so blocks wait for
nobody but these. `POSTS` and `TAKES` are both true on a device; a test that has no second one runs
a kernel's two halves one after another.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.exchange import post, take
from mstarc_runtime.transport.inboxes import NUMBERS, Inboxes

SUM = tl.constexpr(0)
FIRST = tl.constexpr(1)
ALL = tl.constexpr(2)


@triton.jit
def join_rows_kernel(
    part, residual, gain, h, squares, addresses, epochs,
    B: tl.constexpr, W: tl.constexpr, NUMBERS: tl.constexpr, CHANNELS: tl.constexpr,
    RANK: tl.constexpr, RANKS: tl.constexpr, EARLY: tl.constexpr, CHAINED: tl.constexpr,
    POSTS: tl.constexpr, TAKES: tl.constexpr, WATCHED: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    row = tl.program_id(1)
    channel = row * tl.num_programs(0) + piece
    number = tl.arange(0, NUMBERS)
    columns = piece * NUMBERS + number
    inside = columns < W
    at = row * W + columns
    gains = tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    if EARLY:
        allow_next(CHAINED)
    wait_for_previous(CHAINED)
    own = tl.load(part + at, mask=inside, other=0.0)
    epoch = tl.load(epochs + channel) + 1
    places = (epoch & 1) * (RANKS * CHANNELS * NUMBERS) + channel * NUMBERS
    if POSTS:
        place = places + RANK * CHANNELS * NUMBERS
        post(addresses, place, number, own.to(tl.int32, bitcast=True), epoch, RANK, RANKS)
    if TAKES:
        # What is needed behind the wait is asked for before it.
        x = tl.load(residual + at, mask=inside, other=0.0)
        total = tl.zeros((NUMBERS,), dtype=tl.float32)
        for other in tl.static_range(RANKS):
            theirs = own
            if other != RANK:
                place = places + other * CHANNELS * NUMBERS
                bits = take(addresses, place, number, epoch, RANK, WATCHED)
                theirs = bits.to(tl.float32, bitcast=True)
            total += theirs
        if not EARLY:
            allow_next(CHAINED)
        # Behind the wait, where all of the block have read them.
        tl.store(part + at, tl.zeros((NUMBERS,), dtype=tl.float32), mask=inside)
        tl.store(epochs + channel, epoch)
        x += total
        tl.store(residual + at, x, mask=inside)
        tl.store(h + at, (x * gains).to(h.dtype.element_ty), mask=inside)
        tl.store(squares + piece * B + row, tl.sum(tl.where(inside, x * x, 0.0), axis=0))


# One kernel for all sizes and places: it is there before anything is captured.
@triton.jit(do_not_specialize=["N"], do_not_specialize_on_alignment=["values", "made"])
def exchange_kernel(
    values, made, addresses, epochs, N,
    NUMBERS: tl.constexpr, CHANNELS: tl.constexpr, RANK: tl.constexpr, RANKS: tl.constexpr,
    WANTED: tl.constexpr, POSTS: tl.constexpr, TAKES: tl.constexpr, WATCHED: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    number = tl.arange(0, NUMBERS)
    at = channel * NUMBERS + number
    inside = at < N
    own = tl.load(values + at, mask=inside, other=0)
    epoch = tl.load(epochs + channel) + 1
    places = (epoch & 1) * (RANKS * CHANNELS * NUMBERS) + channel * NUMBERS
    if POSTS:
        bits = own.to(tl.int32)
        if WANTED == SUM:
            bits = own.to(tl.float32).to(tl.int32, bitcast=True)
        post(addresses, places + RANK * CHANNELS * NUMBERS, number, bits, epoch, RANK, RANKS)
    if TAKES:
        total = tl.zeros((NUMBERS,), dtype=tl.float32)
        for other in tl.static_range(RANKS):
            theirs = own
            if other != RANK:
                place = places + other * CHANNELS * NUMBERS
                bits = take(addresses, place, number, epoch, RANK, WATCHED)
                if WANTED == SUM:
                    total += bits.to(tl.float32, bitcast=True)
                else:
                    theirs = bits.to(own.dtype)
            elif WANTED == SUM:
                total += own.to(tl.float32)
            if WANTED == ALL:
                tl.store(made + other * N + at, theirs, mask=inside)
            elif WANTED == FIRST and other == 0:
                tl.store(made + at, theirs, mask=inside)
        # Behind the waits, where all of the block have read it.
        tl.store(epochs + channel, epoch)
        if WANTED == SUM:
            tl.store(made + at, total.to(made.dtype.element_ty), mask=inside)


def join_rows(
    part: Tensor,
    inboxes: Inboxes,
    *,
    residual: Tensor,
    gain: Tensor,
    h: Tensor,
    squares: Tensor,
    chained: bool,
    posts: bool = True,
    takes: bool = True,
) -> None:
    """Adds what all ranks have in `part` f32[B, W] to `residual`, and empties it.

    Then `h` [B, W] is the residual times `gain` [W], `squares` f32[pieces(W), B] the parts of its
    sums of squares.
    """
    batch, width = residual.shape
    join_rows_kernel[(pieces(width), batch)](
        part, residual, gain, h, squares, inboxes.addresses, inboxes.epochs,
        B=batch, W=width, EARLY=inboxes.is_alone, CHAINED=chained, launch_pdl=chained,
        **_launch(inboxes, posts, takes),
    )  # fmt: skip
    _keep_pace(inboxes)


def pieces(width: int) -> int:
    """Blocks that share a row of so many numbers."""
    return -(-width // NUMBERS)


def exchange(
    values: Tensor,
    inboxes: Inboxes,
    wanted: tl.constexpr,
    *,
    made: Tensor | None = None,
    posts: bool = True,
    takes: bool = True,
) -> Tensor:
    """The ranks' sum of `values`, or the first one's, in their place; or `ALL`: [ranks, *values].

    Sums are of floats of 32 bits or less, added in 32; other numbers have 8 to 64 bits.
    """
    if wanted is ALL:
        made = torch.empty(inboxes.count, *values.shape, dtype=values.dtype, device=values.device)
    given, into = values, values if made is None else made
    if wanted is not SUM:
        bits = _BITS[values.element_size()]
        given, into = given.reshape(-1).view(bits), into.reshape(-1).view(bits)
    count = given.numel()
    exchange_kernel[(triton.cdiv(count, NUMBERS),)](
        given, into, inboxes.addresses, inboxes.epochs, count,
        WANTED=wanted.value, **_launch(inboxes, posts, takes),
    )  # fmt: skip
    _keep_pace(inboxes)
    return values if made is None else made


_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int32}


def _launch(inboxes: Inboxes, posts: bool, takes: bool) -> dict[str, object]:
    return {
        "NUMBERS": NUMBERS, "CHANNELS": inboxes.channels, "RANK": inboxes.index,
        "RANKS": inboxes.count, "POSTS": posts, "TAKES": takes,
        "WATCHED": inboxes.epochs.is_cuda, "num_warps": 4,
    }  # fmt: skip


def _keep_pace(inboxes: Inboxes) -> None:
    """Outside of a graph, waits for the others here, not in the call of the driver that comes next.

    One that loads a kernel or wants memory may wait for the device, and keep another rank from the
    very call that the device waits for.
    """
    if inboxes.epochs.is_cuda and not torch.cuda.is_current_stream_capturing():
        torch.cuda.current_stream().synchronize()

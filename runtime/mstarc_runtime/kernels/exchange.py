"""Numbers that the GPUs of one machine tell one another, by kernels that write into their memory.

Every rank of a group has an inbox that the others' kernels can write (`transport.inboxes`). An
inbox is cut into channels, one a block of a kernel, and each channel has two places for every rank:

    i64[2, ranks, channels, NUMBERS]: below a number's 32 bits, above them the epoch of the channel

A block posts its numbers into its place of each other rank's inbox, then looks at its own inbox
until every number of every other rank has come. A number and its epoch are 8 bytes, which are
written and seen at once; so there is no flag beside them, no fence, and nothing to reset. What is
added up is added in the order of the ranks: all of them get the same bits, and runs repeat.

Nothing that somebody still reads is overwritten. The epochs of a channel are e = 1, 2, …, and its
places are taken in turn, e mod 2. A rank posts e once its own kernel of e - 1 has ended, for the
kernels of a queue follow one another; that one had seen what each other rank posted at e - 1. That
rank did so once its own kernel of e - 2 had ended, with all that it read. So whoever is told e does
not read e - 2 any more, which is what stands there. With one place this would not hold: a rank may
still look at e - 1 when another, which has all it wants, posts e. So all ranks post whenever they
take, also where one alone has something to tell.

Nobody takes an old number for a new one: until e comes, all of a place is of e - 2, because what is
posted to a channel is always all of it. All ranks call the same kernels with the same sizes in the
same order, as with any library, so they agree about a channel's epoch, each counting it in its own
memory: a graph may be replayed as often as one likes.

Who waits for a rank that is gone would wait for ever, so a block that has looked for `PATIENCE_S`
ends its kernel with an error, as a library's watchdog would.

A block that waits keeps its place on a multiprocessor, of which others may need it to get on. There
are `CHANNELS` at most, of four warps each, a tenth of what a chip holds. But kernels that are let
in behind them (`allow_next`) fill the rest while they wait, which is good for as long as what is
awaited needs nothing of this device. Where another group's kernels share it they may be what is
awaited, in a ring over two devices: there a kernel lets its successor in only when all is here.
"""

import triton
import triton.language as tl

from mstarc_runtime.transport.inboxes import PATIENCE_S

_PATIENCE_NS = tl.constexpr(int(PATIENCE_S * 1e9))


@triton.jit
def post(addresses, place, at, bits, epoch, RANK: tl.constexpr, RANKS: tl.constexpr):
    """Writes `bits` i32[n] to `place` + `at` of every other rank's inbox."""
    whole = (epoch.to(tl.int64) << 32) | (bits.to(tl.int64) & 0xFFFFFFFF)
    for peer in tl.static_range(RANKS):
        if peer != RANK:
            inbox = addresses[peer].to(tl.pointer_type(tl.int64))
            tl.store(tl.multiple_of(inbox, 16) + place + at, whole)


@triton.jit
def take(addresses, place, at, epoch, RANK: tl.constexpr, WATCHED: tl.constexpr):
    """What another rank has posted to `place` + `at` at this epoch: i32[n], once it has come."""
    inbox = addresses[RANK].to(tl.pointer_type(tl.int64))
    pointers = tl.multiple_of(inbox, 16) + place + at
    whole = tl.load(pointers, volatile=True)
    missing = tl.sum(((whole >> 32).to(tl.int32) != epoch).to(tl.int32), axis=0)
    began = _now(WATCHED)
    while missing > 0:
        whole = tl.load(pointers, volatile=True)
        missing = tl.sum(((whole >> 32).to(tl.int32) != epoch).to(tl.int32), axis=0)
        _end_if_late(began, WATCHED)
    return whole.to(tl.int32)


@triton.jit
def _now(WATCHED: tl.constexpr):
    now = tl.full((), 0, dtype=tl.int64)
    if WATCHED:
        now = tl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
        )
    return now


@triton.jit
def _end_if_late(began, WATCHED: tl.constexpr):
    if WATCHED:
        tl.inline_asm_elementwise(
            """{
            .reg .pred late;
            .reg .s64 now;
            mov.u64 now, %globaltimer;
            sub.s64 now, now, $1;
            setp.gt.s64 late, now, $2;
            @late trap;
            mov.u32 $0, 0;
            }""",
            "=r,l,l",
            [began, tl.full((), _PATIENCE_NS, dtype=tl.int64)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )

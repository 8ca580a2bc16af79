"""Leaves the first `top_k` logits of each row and sets all others to -inf, without sorting them.

A block a row counts how many logits each upper half of a key has, then each lower half beneath the
one in which the last of the first lies, as `layers.sampler` counts: ids of equal keys by their
order. So it reads its logits four times, whatever they are. A row whose request has no `top_k`
costs a launch and nothing else.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.keys import (
    HALF_BITS,
    HALVES,
    KEYS,
    MOST,
    forget_counts,
    half_reached,
    scaled_logits,
)
from mstarc_runtime.layers.sampler import LAST_KEY

LAST = tl.constexpr(LAST_KEY)


@triton.jit
def _keys(
    logits, seen, first, penalty, temperature, most, V,
    PART: tl.constexpr, PENALISED: tl.constexpr,
):  # fmt: skip
    """(key, id) of a part; behind the last id stands the last key."""
    ids = first + tl.arange(0, PART)
    scaled = scaled_logits(logits, seen, ids, ids < V, penalty, temperature, PENALISED)
    return tl.minimum((most - scaled) * KEYS, MOST).to(tl.int32), ids


@triton.jit
def rank_row(
    logits, seen, settings, ranks, slots, counts, V,
    PART: tl.constexpr, COUNT: tl.constexpr, PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """`counts` i32[B, 2, HALVES] are zeros, before and afterwards."""
    row = tl.program_id(0).to(tl.int64)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    slot = tl.load(slots + row)
    wanted = tl.load(ranks + slot).to(tl.int32)
    temperature = tl.load(settings + slot)
    if (wanted > 0) & (wanted < V) & (temperature > 0):
        own = logits + row * V
        known = seen + slot * V
        penalty = tl.load(settings + 2 * COUNT + slot)
        upper_halves = counts + row * 2 * HALVES
        lower_halves = upper_halves + HALVES
        most = tl.full((), float("-inf"), tl.float32)
        for first in range(0, V, PART):
            ids = first + tl.arange(0, PART)
            scaled = scaled_logits(own, known, ids, ids < V, penalty, temperature, PENALISED)
            most = tl.maximum(most, tl.max(scaled, axis=0))
        # Those of the last key are not counted: most logits that are not allowed have it, and what
        # the others do not reach lies there.
        for first in range(0, V, PART):
            key, ids = _keys(own, known, first, penalty, temperature, most, V, PART, PENALISED)
            to = upper_halves + (key >> HALF_BITS)
            tl.atomic_add(to, 1, mask=key < LAST, sem="relaxed")
        tl.debug_barrier()
        upper, before = half_reached(upper_halves, wanted * 0, wanted, ".cg")
        for first in range(0, V, PART):
            key, ids = _keys(own, known, first, penalty, temperature, most, V, PART, PENALISED)
            is_there = (key < LAST) & ((key >> HALF_BITS) == upper)
            to = lower_halves + (key & (HALVES - 1))
            tl.atomic_add(to, 1, mask=is_there, sem="relaxed")
        tl.debug_barrier()
        lower, before = half_reached(lower_halves, before, wanted, ".cg")
        last_key = (upper << HALF_BITS) + lower
        left = wanted - before
        for first in range(0, V, PART):
            key, ids = _keys(own, known, first, penalty, temperature, most, V, PART, PENALISED)
            equal = ((key == last_key) & (ids < V)).to(tl.int32)
            order = tl.cumsum(equal, axis=0)
            is_out = (key > last_key) | ((equal == 1) & (order > left))
            tl.store(own + ids, float("-inf"), mask=is_out & (ids < V))
            left -= tl.sum(equal, axis=0)
        tl.debug_barrier()
        forget_counts(upper_halves)


class Ranking:
    """The launch for one number of rows. Its buffer is its own: calls may not overlap."""

    def __init__(self, *, batch: int, chained: bool, device: torch.device) -> None:
        self.chained = chained
        self.counts = torch.zeros(batch, 2, HALVES.value, dtype=torch.int32, device=device)

    def __call__(
        self,
        logits: Tensor,
        *,
        settings: Tensor,
        ranks: Tensor,
        slots: Tensor,
        seen: Tensor | None,
    ) -> None:
        """Changes `logits` f32[B, V]. `settings` f32[3, slots] and `seen` as `sampling.Draw` takes
        them; `ranks` i64[slots] are the `top_k`, 0 for none; `slots` i64[B]."""
        batch, vocab = logits.shape
        assert settings.is_contiguous()
        rank_row[(batch,)](
            logits,
            logits if seen is None else seen,
            settings,
            ranks,
            slots,
            self.counts,
            vocab,
            PART=min(8192, triton.next_power_of_2(vocab)),
            COUNT=settings.shape[1],
            PENALISED=seen is not None,
            CHAINED=self.chained,
            num_warps=32,
            launch_pdl=self.chained,
        )

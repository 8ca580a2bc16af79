"""One token of each row's logits, of a vocabulary that one block holds: `layers.sampler`'s choice.

For codes of sound, of which a frame has many: all of it is one kernel, `top_k` included, where
`sampling` needs a pass over all multiprocessors for each of its parts. Candidates are drawn until
one lies within the nucleus; where none of them does, the nucleus itself is found by halving.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.counter_hash import uniform_number
from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.keys import (
    KEYS,
    MOST,
    TRIES,
    mass_of,
    scaled_logits,
)
from mstarc_runtime.layers.sampler import LAST_KEY, mass_tables

LAST = tl.constexpr(LAST_KEY)
LARGEST = 4096
"""Ids of the largest vocabulary."""


@triton.jit
def _drawn(ends, total, ids, uniform, V):
    """The id in which a uniform number falls, of running sums."""
    target = tl.minimum((total.to(tl.float64) * uniform).to(tl.int64), total - 1)
    return tl.min(tl.where(ends > target, ids, V - 1), axis=0)


@triton.jit
def draw_row(
    logits, seen, settings, ranks, slots, upper, lower, seeds, draws, tokens, stream, V,
    WIDE: tl.constexpr, COUNT: tl.constexpr, PENALISED: tl.constexpr, RANKED: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    ids = tl.arange(0, WIDE)
    inside = ids < V
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    slot = tl.load(slots + row)
    temperature = tl.load(settings + slot)
    scaled = scaled_logits(
        logits + row.to(tl.int64) * V, seen + slot * V, ids, inside,
        tl.load(settings + 2 * COUNT + slot), temperature, PENALISED,
    )  # fmt: skip
    most = tl.max(scaled, axis=0)
    draw = tl.load(draws + slot)
    if temperature <= 0:
        token = tl.min(tl.where(scaled == most, ids, V), axis=0)
    else:
        key = tl.minimum((most - scaled) * KEYS, MOST).to(tl.int32)
        # Of a logit that is not there the difference is no number below the last key.
        key = tl.where(scaled == float("-inf"), LAST, key)
        mass = mass_of(key, upper, lower)
        mass = tl.where(inside, mass, 0)
        if RANKED:
            first = tl.load(ranks + slot).to(tl.int32)
            if (first > 0) & (first < V):
                # The key of rank `first`, by halving; of its equals the first ids are taken.
                low = first * 0 - 1
                high = first * 0 + LAST
                while high - low > 1:
                    middle = (low + high) // 2
                    reached = tl.sum((inside & (key <= middle)).to(tl.int32), axis=0)
                    high = tl.where(reached >= first, middle, high)
                    low = tl.where(reached >= first, low, middle)
                before = tl.sum((inside & (key < high)).to(tl.int32), axis=0)
                equal = inside & (key == high)
                order = tl.cumsum(equal.to(tl.int32), axis=0)
                kept = (inside & (key < high)) | (equal & (order <= first - before))
                mass = tl.where(kept, mass, 0)
        total = tl.sum(mass, axis=0)
        ends = tl.cumsum(mass, axis=0)
        top_p = tl.load(settings + COUNT + slot).to(tl.float64)
        wanted = tl.maximum((total.to(tl.float64) * top_p).to(tl.int64), 1)
        seed = tl.load(seeds + slot)
        token = slot.to(tl.int32) * 0
        number = slot.to(tl.int32) * 0
        is_within = number > 0
        while (number < TRIES) & (is_within == 0):
            token = _drawn(ends, total, ids, uniform_number(seed, stream, draw * 4096 + number), V)
            limit = tl.sum(tl.where(ids == token, key, 0), axis=0)
            is_within = tl.sum(tl.where(key < limit, mass, 0), axis=0) < wanted
            number += 1
        if is_within == 0:
            low = token * 0 - 1
            high = token * 0 + LAST
            while high - low > 1:
                middle = (low + high) // 2
                is_enough = tl.sum(tl.where(key <= middle, mass, 0), axis=0) >= wanted
                high = tl.where(is_enough, middle, high)
                low = tl.where(is_enough, low, middle)
            mass = tl.where(key <= high, mass, 0)
            uniform = uniform_number(seed, stream, draw * 4096 + TRIES)
            token = _drawn(tl.cumsum(mass, axis=0), tl.sum(mass, axis=0), ids, uniform, V)
    tl.store(tokens + row, token.to(tl.int64))
    tl.store(draws + slot, draw + 1)
    if PENALISED:
        tl.store(seen + slot * V + token, tl.full((), 1, tl.int8))


class SmallDraw:
    """The launch for one number of rows."""

    def __init__(
        self,
        *,
        batch: int,
        vocab: int,
        count: int,
        stream: int,
        chained: bool,
        device: torch.device,
    ) -> None:
        """`count` is how many slots the settings have; `stream` the sampler's."""
        assert vocab <= LARGEST, vocab
        self.batch, self.vocab, self.count = batch, vocab, count
        self.stream, self.chained = stream, chained
        self.tables = mass_tables(device)

    def __call__(
        self,
        logits: Tensor,
        *,
        settings: Tensor,
        ranks: Tensor | None,
        slots: Tensor,
        seeds: Tensor,
        draws: Tensor,
        seen: Tensor | None,
        tokens: Tensor,
    ) -> None:
        """As `sampling.Draw`, and `ranks` i64[slots]: each one's `top_k`. Logits may be bf16."""
        draw_row[(self.batch,)](
            logits,
            logits if seen is None else seen,
            settings,
            slots if ranks is None else ranks,
            slots,
            *self.tables,
            seeds,
            draws,
            tokens,
            self.stream,
            self.vocab,
            WIDE=triton.next_power_of_2(self.vocab),
            COUNT=self.count,
            PENALISED=seen is not None,
            RANKED=ranks is not None,
            CHAINED=self.chained,
            num_warps=8,
            launch_pdl=self.chained,
        )

"""One token of each row's logits without sorting them: the choice that `layers.sampler` defines.

Candidates are drawn from all ids and taken if they lie within the nucleus, so that four light
passes do, each over all multiprocessors. Masses are whole numbers: the order of additions means
nothing.

    greatest    the greatest scaled logit of each part of a row
    masses      the mass of each part
    draw        the candidates, a block each
    decide      mass above each candidate in each part; the last block of a row takes the first
                candidate within the nucleus or, where none is, draws from it alone
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.layers.sampler import (
    CANDIDATES,
    KEYS_A_LOGIT,
    LAST_KEY,
    MASS_BITS,
    mass_tables,
)

TRIES = tl.constexpr(CANDIDATES)
KEYS = tl.constexpr(float(KEYS_A_LOGIT))
MOST = tl.constexpr(float(LAST_KEY))
BITS = tl.constexpr(MASS_BITS)


@triton.jit
def _mix(x):
    """`layers.counter_hash.mix`, on u64."""
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def _uniform(seed, stream, counter):
    """`layers.counter_hash.uniform`, as f64."""
    x = _mix(_mix(seed.to(tl.uint64)) + tl.full((), stream, tl.uint64))
    x = _mix(x + counter.to(tl.uint64))
    return (x >> 40).to(tl.int64).to(tl.float64) * 5.9604644775390625e-08


@triton.jit
def _scaled(
    logits, seen, settings, slots, row, part, V, COUNT: tl.constexpr, PENALISED, PART: tl.constexpr
):
    """The part's logits, penalised and divided by the temperature, -inf outside; and its ids."""
    ids = part * PART + tl.arange(0, PART)
    inside = ids < V
    slot = tl.load(slots + row)
    values = tl.load(logits + row.to(tl.int64) * V + ids, mask=inside, other=float("-inf"))
    if PENALISED:
        penalty = tl.load(settings + 2 * COUNT + slot)
        known = tl.load(seen + slot * V + ids, mask=inside, other=0)
        changed = tl.where(values > 0, tl.math.div_rn(values, penalty), values * penalty)
        values = tl.where(known != 0, changed, values)
    temperature = tl.load(settings + slot)
    # Rounded as the reference rounds, so that both choose alike.
    return tl.math.div_rn(values, tl.where(temperature > 0, temperature, 1.0)), ids


@triton.jit
def _weighed(scaled, greatest, upper, lower):
    """(key, mass) i64 of scaled logits, by how far they are below the greatest."""
    below = greatest - scaled
    key = tl.minimum(below * KEYS, MOST).to(tl.int64)
    mass = tl.load(upper + (key >> 12)) * tl.load(lower + (key & 4095)) >> BITS
    return key, mass


@triton.jit
def _greatest(greatest, row, PARTS: tl.constexpr, WIDE: tl.constexpr):
    parts = tl.arange(0, WIDE)
    at = greatest + row * PARTS + parts
    return tl.max(tl.load(at, mask=parts < PARTS, other=float("-inf")), axis=0)


@triton.jit
def _place(masses, uniform, WIDE: tl.constexpr):
    """(part, mass into it) that a uniform number in 0 .. 1 means among parts of `masses`."""
    parts = tl.arange(0, WIDE)
    total = tl.sum(masses, axis=0)
    target = tl.minimum((total.to(tl.float64) * uniform).to(tl.int64), total - 1)
    ends = tl.cumsum(masses, axis=0)
    there = tl.min(tl.where(ends > target, parts, WIDE - 1), axis=0)
    return there, target - tl.sum(tl.where(parts < there, masses, 0), axis=0)


@triton.jit
def greatest_of_parts(
    logits, seen, settings, slots, greatest, best_ids, V,
    PART: tl.constexpr, PARTS: tl.constexpr, COUNT: tl.constexpr, PENALISED: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    scaled, ids = _scaled(logits, seen, settings, slots, row, part, V, COUNT, PENALISED, PART)
    most = tl.max(scaled, axis=0)
    tl.store(greatest + row * PARTS + part, most)
    tl.store(best_ids + row * PARTS + part, tl.min(tl.where(scaled == most, ids, V), axis=0))


@triton.jit
def masses_of_parts(
    logits, seen, settings, slots, upper, lower, greatest, masses, V,
    PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr, COUNT: tl.constexpr,
    PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    scaled, _ = _scaled(logits, seen, settings, slots, row, part, V, COUNT, PENALISED, PART)
    _, mass = _weighed(scaled, _greatest(greatest, row, PARTS, WIDE), upper, lower)
    tl.store(masses + row * PARTS + part, tl.sum(mass, axis=0))


@triton.jit
def draw_candidates(
    logits, seen, settings, slots, upper, lower, seeds, draws, greatest, masses, candidates,
    stream, V,
    PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr, COUNT: tl.constexpr,
    PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """`candidates` i64[B, 2, TRIES]: ids, keys."""
    number = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    slot = tl.load(slots + row)
    parts = tl.arange(0, WIDE)
    every = tl.load(masses + row * PARTS + parts, mask=parts < PARTS, other=0)
    counter = tl.load(draws + slot) * 4096 + number
    uniform = _uniform(tl.load(seeds + slot), stream, counter)
    there, target = _place(every, uniform, WIDE)
    scaled, ids = _scaled(logits, seen, settings, slots, row, there, V, COUNT, PENALISED, PART)
    key, mass = _weighed(scaled, _greatest(greatest, row, PARTS, WIDE), upper, lower)
    drawn = tl.min(tl.where(tl.cumsum(mass, axis=0) > target, ids, V - 1), axis=0)
    at = candidates + row * 2 * TRIES + number
    tl.store(at, drawn.to(tl.int64))
    tl.store(at + TRIES, tl.sum(tl.where(ids == drawn, key, 0), axis=0))


@triton.jit
def _eight_sums(a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3, a4 + b4, a5 + b5, a6 + b6, a7 + b7


@triton.jit
def decide(
    logits, seen, settings, slots, upper, lower, seeds, draws, greatest, best_ids, masses,
    candidates, above,
    arrived, tokens, stream, V,
    PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr, COUNT: tl.constexpr,
    PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """`above` i64[B, PARTS, TRIES]: mass of smaller keys than the candidate's."""
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    most = _greatest(greatest, row, PARTS, WIDE)
    scaled, ids = _scaled(logits, seen, settings, slots, row, part, V, COUNT, PENALISED, PART)
    key, mass = _weighed(scaled, most, upper, lower)
    limits = candidates + row * 2 * TRIES + TRIES
    # One pass over the block's threads for all eight sums.
    m0, m1, m2, m3, m4, m5, m6, m7 = tl.reduce(
        (
            tl.where(key < tl.load(limits), mass, 0),
            tl.where(key < tl.load(limits + 1), mass, 0),
            tl.where(key < tl.load(limits + 2), mass, 0),
            tl.where(key < tl.load(limits + 3), mass, 0),
            tl.where(key < tl.load(limits + 4), mass, 0),
            tl.where(key < tl.load(limits + 5), mass, 0),
            tl.where(key < tl.load(limits + 6), mass, 0),
            tl.where(key < tl.load(limits + 7), mass, 0),
        ),
        0,
        _eight_sums,
    )
    to = above + (row * PARTS + part) * TRIES
    tl.store(to, m0)
    tl.store(to + 1, m1)
    tl.store(to + 2, m2)
    tl.store(to + 3, m3)
    tl.store(to + 4, m4)
    tl.store(to + 5, m5)
    tl.store(to + 6, m6)
    tl.store(to + 7, m7)
    tl.debug_barrier()
    if tl.atomic_add(arrived + row, 1, sem="acq_rel") == PARTS - 1:
        slot = tl.load(slots + row)
        parts = tl.arange(0, WIDE)
        numbers = tl.arange(0, TRIES)
        within_row = parts < PARTS
        every = tl.load(masses + row * PARTS + parts, mask=within_row, other=0)
        total = tl.sum(every, axis=0)
        top_p = tl.load(settings + COUNT + slot).to(tl.float64)
        wanted = tl.maximum((total.to(tl.float64) * top_p).to(tl.int64), 1)
        at = above + (row * PARTS + parts)[:, None] * TRIES + numbers[None, :]
        higher = tl.sum(
            tl.load(at, mask=within_row[:, None], other=0, cache_modifier=".cg"), axis=0
        )
        chosen_ids = tl.load(candidates + row * 2 * TRIES + numbers)
        keys = tl.load(candidates + row * 2 * TRIES + TRIES + numbers)
        first = tl.min(tl.where(higher < wanted, numbers, TRIES), axis=0)
        token = tl.sum(tl.where(numbers == first, chosen_ids, 0), axis=0)
        draw = tl.load(draws + slot)
        seed = tl.load(seeds + slot)
        # All candidates lie outside the nucleus: find its last key, then draw from it.
        if (first == TRIES) & (tl.load(settings + slot) > 0):
            low = tl.min(keys, axis=0) * 0 - 1
            high = tl.min(keys, axis=0) - 1
            while high - low > 1:
                middle = (low + high) // 2
                reached = tl.min(keys, axis=0) * 0
                for other in range(PARTS):
                    scaled, ids = _scaled(
                        logits, seen, settings, slots, row, other, V, COUNT, PENALISED, PART
                    )
                    key, mass = _weighed(scaled, most, upper, lower)
                    reached += tl.sum(tl.where(key <= middle, mass, 0), axis=0)
                is_enough = reached >= wanted
                high = tl.where(is_enough, middle, high)
                low = tl.where(is_enough, low, middle)
            left = tl.zeros((WIDE,), dtype=tl.int64)
            for other in range(PARTS):
                scaled, ids = _scaled(
                    logits, seen, settings, slots, row, other, V, COUNT, PENALISED, PART
                )
                key, mass = _weighed(scaled, most, upper, lower)
                inside = tl.sum(tl.where(key <= high, mass, 0), axis=0)
                left = tl.where(parts == other, inside, left)
            counter = draw * 4096 + TRIES
            there, target = _place(left, _uniform(seed, stream, counter), WIDE)
            scaled, ids = _scaled(
                logits, seen, settings, slots, row, there, V, COUNT, PENALISED, PART
            )
            key, mass = _weighed(scaled, most, upper, lower)
            ends = tl.cumsum(tl.where(key <= high, mass, 0), axis=0)
            token = tl.min(tl.where(ends > target, ids, V - 1), axis=0).to(tl.int64)
        if tl.load(settings + slot) <= 0:
            tops = tl.load(greatest + row * PARTS + parts, mask=within_row, other=float("-inf"))
            firsts = tl.load(best_ids + row * PARTS + parts, mask=within_row, other=0)
            token = tl.min(tl.where(tops == most, firsts, V), axis=0).to(tl.int64)
        tl.store(tokens + row, token)
        tl.store(draws + slot, draw + 1)
        if PENALISED:
            tl.store(seen + slot * V + token, tl.full((), 1, tl.int8))
        tl.store(arrived + row, 0)


def part_of(batch: int) -> int:
    """Ids that a block looks at: so many that all blocks of a pass are on the chip at once."""
    return 2048 if batch <= 8 else 4096 if batch <= 16 else 8192


class Draw:
    """The launches for one number of rows. Its buffers are its own: calls may not overlap."""

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
        self.batch, self.vocab, self.count = batch, vocab, count
        self.stream, self.chained = stream, chained
        self.part = part_of(batch)
        self.parts = int(triton.cdiv(vocab, self.part))

        def zeros(*dims: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(dims, dtype=dtype, device=device)

        self.tables = mass_tables(device)
        self.greatest = zeros(batch, self.parts, dtype=torch.float32)
        self.best_ids = zeros(batch, self.parts, dtype=torch.int32)
        self.masses = zeros(batch, self.parts)
        self.candidates = zeros(batch, 2, CANDIDATES)
        self.above = zeros(batch, self.parts, CANDIDATES)
        self.arrived = zeros(batch, dtype=torch.int32)

    def __call__(
        self,
        logits: Tensor,
        *,
        settings: Tensor,
        slots: Tensor,
        seeds: Tensor,
        draws: Tensor,
        seen: Tensor | None,
        tokens: Tensor,
    ) -> None:
        """`logits` f32[B, V] into `tokens` i64[B]; `draws` and `seen` are told.

        `settings` f32[3, slots]: temperature, top_p, repetition penalty; `slots` i64[B];
        `seeds`, `draws` i64[slots]; `seen` i8[slots, V].
        """
        given = (logits, logits if seen is None else seen, settings, slots)
        assert settings.shape == (3, self.count), settings.shape
        wide = triton.next_power_of_2(self.parts)
        shared = {
            "PART": self.part,
            "PARTS": self.parts,
            "COUNT": self.count,
            "PENALISED": seen is not None,
            "CHAINED": self.chained,
            "num_warps": 8 if self.part <= 4096 else 16,
            "launch_pdl": self.chained,
        }
        grid = (self.parts, self.batch)
        greatest_of_parts[grid](*given, self.greatest, self.best_ids, self.vocab, **shared)
        masses_of_parts[grid](
            *given, *self.tables, self.greatest, self.masses, self.vocab, WIDE=wide, **shared
        )
        random = (*self.tables, seeds, draws, self.greatest)
        draw_candidates[(CANDIDATES, self.batch)](
            *given, *random, self.masses, self.candidates, self.stream, self.vocab,
            WIDE=wide, **shared,
        )  # fmt: skip
        decide[grid](
            *given, *random, self.best_ids, self.masses, self.candidates, self.above,
            self.arrived, tokens, self.stream, self.vocab, WIDE=wide, **shared,
        )  # fmt: skip

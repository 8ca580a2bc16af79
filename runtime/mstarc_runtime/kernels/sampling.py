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
    CUBIC,
    KEYS_A_LOGIT,
    LAST_KEY,
    MASS_BITS,
    mass_tables,
)

PART = 2048
TRIES = tl.constexpr(CANDIDATES)
KEYS = tl.constexpr(float(KEYS_A_LOGIT))
MOST = tl.constexpr(float(LAST_KEY))
BITS = tl.constexpr(MASS_BITS)
UNIT = tl.constexpr(1 << MASS_BITS)
CUBED = tl.constexpr(CUBIC)


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
def mass_of(key, upper, middle):
    """`layers.sampler.masses_of`, on i32 or i64 keys: i64."""
    rough = tl.load(upper + (key >> 19)) * tl.load(middle + ((key >> 12) & 127)) >> BITS
    last = (key & 4095).to(tl.int64)
    fine = UNIT - (last << 12) + (last * last >> 8) - (last * last * last * CUBED >> 52)
    return rough * fine >> BITS


@triton.jit
def _part(scaled, row, part, PART: tl.constexpr, PARTS: tl.constexpr):
    """Scaled logits of a part, and its ids."""
    ids = part * PART + tl.arange(0, PART)
    return tl.load(scaled + row * (PARTS * PART) + ids), ids


@triton.jit
def _weighed(values, greatest, upper, middle):
    """(key i32, mass i64) of scaled logits, by how far they are below the greatest."""
    key = tl.minimum((greatest - values) * KEYS, MOST).to(tl.int32)
    return key, mass_of(key, upper, middle)


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
    logits, seen, settings, slots, scaled, greatest, best_ids,
    V: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr, COUNT: tl.constexpr,
    PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Logits, penalised and divided by the temperature, -inf behind the last, into `scaled`."""
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
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
    values = tl.math.div_rn(values, tl.where(temperature > 0, temperature, 1.0))
    tl.store(scaled + row * (PARTS * PART) + ids, values)
    most = tl.max(values, axis=0)
    tl.store(greatest + row * PARTS + part, most)
    tl.store(best_ids + row * PARTS + part, tl.min(tl.where(values == most, ids, V), axis=0))


@triton.jit
def masses_of_parts(
    scaled, upper, middle, greatest, masses,
    PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    values, _ = _part(scaled, row, part, PART, PARTS)
    _, mass = _weighed(values, _greatest(greatest, row, PARTS, WIDE), upper, middle)
    tl.store(masses + row * PARTS + part, tl.sum(mass, axis=0))


@triton.jit
def draw_candidates(
    scaled, slots, upper, middle, seeds, draws, greatest, masses, candidates, stream,
    V: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    """`candidates` i64[B, 2, TRIES]: ids, then their keys."""
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
    values, ids = _part(scaled, row, there, PART, PARTS)
    key, mass = _weighed(values, _greatest(greatest, row, PARTS, WIDE), upper, middle)
    drawn = tl.min(tl.where(tl.cumsum(mass, axis=0) > target, ids, V - 1), axis=0)
    at = candidates + row * 2 * TRIES + number
    tl.store(at, drawn.to(tl.int64))
    tl.store(at + TRIES, tl.sum(tl.where(ids == drawn, key, 0), axis=0).to(tl.int64))


@triton.jit
def decide(
    scaled, seen, settings, slots, upper, middle, seeds, draws, greatest, best_ids, masses,
    candidates, above, arrived, tokens, stream,
    V: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr,
    COUNT: tl.constexpr, PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """`above` i64[B, PARTS, TRIES]: mass of smaller keys than the candidate's."""
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    most = _greatest(greatest, row, PARTS, WIDE)
    values, ids = _part(scaled, row, part, PART, PARTS)
    key, mass = _weighed(values, most, upper, middle)
    for number in tl.static_range(TRIES):
        limit = tl.load(candidates + row * 2 * TRIES + TRIES + number)
        here = tl.sum(tl.where(key < limit, mass, 0), axis=0)
        tl.store(above + (row * PARTS + part) * TRIES + number, here)
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
        keys = tl.load(candidates + row * 2 * TRIES + TRIES + numbers).to(tl.int32)
        first = tl.min(tl.where(higher < wanted, numbers, TRIES), axis=0)
        token = tl.sum(tl.where(numbers == first, chosen_ids, 0), axis=0)
        draw = tl.load(draws + slot)
        seed = tl.load(seeds + slot)
        # All candidates lie outside the nucleus: find its last key, then draw from it.
        if (first == TRIES) & (tl.load(settings + slot) > 0):
            low = tl.min(keys, axis=0) * 0 - 1
            high = tl.min(keys, axis=0) - 1
            while high - low > 1:
                middle_key = (low + high) // 2
                reached = total * 0
                for other in range(PARTS):
                    values, ids = _part(scaled, row, other, PART, PARTS)
                    key, mass = _weighed(values, most, upper, middle)
                    reached += tl.sum(tl.where(key <= middle_key, mass, 0), axis=0)
                is_enough = reached >= wanted
                high = tl.where(is_enough, middle_key, high)
                low = tl.where(is_enough, low, middle_key)
            left = tl.zeros((WIDE,), dtype=tl.int64)
            for other in range(PARTS):
                values, ids = _part(scaled, row, other, PART, PARTS)
                key, mass = _weighed(values, most, upper, middle)
                inside = tl.sum(tl.where(key <= high, mass, 0), axis=0)
                left = tl.where(parts == other, inside, left)
            counter = draw * 4096 + TRIES
            there, target = _place(left, _uniform(seed, stream, counter), WIDE)
            values, ids = _part(scaled, row, there, PART, PARTS)
            key, mass = _weighed(values, most, upper, middle)
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
        self.parts = int(triton.cdiv(vocab, PART))
        # Few blocks: each as fast as it can be. Many: as many at once as fit.
        self.warps = 8 if batch < 8 else 4

        def zeros(*dims: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(dims, dtype=dtype, device=device)

        self.tables = mass_tables(device)
        self.scaled = zeros(batch, self.parts * PART, dtype=torch.float32)
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
        assert settings.shape == (3, self.count), settings.shape
        parts = {"PART": PART, "PARTS": self.parts}
        launch = {"CHAINED": self.chained, "num_warps": self.warps, "launch_pdl": self.chained}
        wide = {"WIDE": triton.next_power_of_2(self.parts)}
        penalised = {"COUNT": self.count, "PENALISED": seen is not None}
        vocab = {"V": self.vocab}
        known = logits if seen is None else seen
        grid = (self.parts, self.batch)
        greatest_of_parts[grid](
            logits, known, settings, slots, self.scaled, self.greatest, self.best_ids,
            **vocab, **parts, **penalised, **launch,
        )  # fmt: skip
        masses_of_parts[grid](
            self.scaled, *self.tables, self.greatest, self.masses, **parts, **wide, **launch
        )
        draw_candidates[(CANDIDATES, self.batch)](
            self.scaled, slots, *self.tables, seeds, draws, self.greatest, self.masses,
            self.candidates, self.stream, **vocab, **parts, **wide, **launch,
        )  # fmt: skip
        decide[grid](
            self.scaled, known, settings, slots, *self.tables, seeds, draws, self.greatest,
            self.best_ids, self.masses, self.candidates, self.above, self.arrived, tokens,
            self.stream, **vocab, **parts, **wide, **penalised, **launch,
        )  # fmt: skip

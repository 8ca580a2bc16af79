"""One token of each row's logits without sorting them: the choice that `layers.sampler` defines.

Candidates are drawn from all ids and taken if they lie within the nucleus, so that four light
passes do, each over all multiprocessors. Masses are whole numbers: the order of additions means
nothing.

    greatest    the greatest scaled logit of each part of a row
    masses      the mass of each part
    draw        the candidates, a block each
    decide      mass above each candidate in each part; the last block of a row takes the first
                candidate within the nucleus or, where none is, draws from it alone

Where `top_p` is small that happens often, and the nucleus's last key must be found. Its upper and
its lower half are then counted out beside the passes above, by all blocks: `masses` adds up what
each upper half weighs, a block of `draw` sees which one it is, `decide` adds up its lower halves.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.counter_hash import uniform_number
from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.keys import (
    HALF_BITS,
    HALVES,
    TRIES,
    add_halves,
    forget_counts,
    half_reached,
    scaled_logits,
    weighed,
)
from mstarc_runtime.layers.sampler import CANDIDATES, mass_tables

PART = 2048
NARROW = tl.constexpr(0.75)
"""Below this `top_p` the last key is counted out; above it no candidate lies in the nucleus once in
65,536 draws or less often, and it is looked for then."""


@triton.jit
def _part(scaled, row, part, PART: tl.constexpr, PARTS: tl.constexpr):
    """Scaled logits of a part, and its ids."""
    ids = part * PART + tl.arange(0, PART)
    return tl.load(scaled + row * (PARTS * PART) + ids), ids


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
    slot = tl.load(slots + row)
    values = scaled_logits(
        logits + row.to(tl.int64) * V, seen + slot * V, ids, ids < V,
        tl.load(settings + 2 * COUNT + slot), tl.load(settings + slot), PENALISED,
    )  # fmt: skip
    tl.store(scaled + row * (PARTS * PART) + ids, values)
    most = tl.max(values, axis=0)
    tl.store(greatest + row * PARTS + part, most)
    tl.store(best_ids + row * PARTS + part, tl.min(tl.where(values == most, ids, V), axis=0))


@triton.jit
def _is_narrow(settings, slot, COUNT: tl.constexpr):
    return (tl.load(settings + COUNT + slot) < NARROW) & (tl.load(settings + slot) > 0)


@triton.jit
def _wanted(settings, slot, total, COUNT: tl.constexpr):
    """The mass that a nucleus reaches, of all of it."""
    top_p = tl.load(settings + COUNT + slot).to(tl.float64)
    return tl.maximum((total.to(tl.float64) * top_p).to(tl.int64), 1)


@triton.jit
def masses_of_parts(
    scaled, settings, slots, upper, middle, greatest, masses, halves,
    PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr, COUNT: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    """`halves` i64[B, 2, HALVES], zeros: the mass of keys of each upper half, of narrow rows."""
    part = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    values, _ = _part(scaled, row, part, PART, PARTS)
    most = _greatest(greatest, row, PARTS, WIDE)
    _, mass = weighed(values, most, upper, middle)
    tl.store(masses + row * PARTS + part, tl.sum(mass, axis=0))
    if _is_narrow(settings, tl.load(slots + row), COUNT):
        own = scaled + (row * PARTS + part) * PART
        add_halves(own, most, upper, middle, halves + row * 2 * HALVES, -1, PART)


@triton.jit
def draw_candidates(
    scaled, settings, slots, upper, middle, seeds, draws, greatest, masses, halves, candidates,
    found, stream,
    V: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr,
    COUNT: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """`candidates` i64[B, 2, TRIES]: ids, then their keys. `found` i64[B, 2], of narrow rows: the
    upper half of the nucleus's last key, and the mass of keys of lesser ones."""
    number = tl.program_id(0)
    row = tl.program_id(1)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    slot = tl.load(slots + row)
    parts = tl.arange(0, WIDE)
    every = tl.load(masses + row * PARTS + parts, mask=parts < PARTS, other=0)
    counter = tl.load(draws + slot) * 4096 + number
    uniform = uniform_number(tl.load(seeds + slot), stream, counter)
    there, target = _place(every, uniform, WIDE)
    values, ids = _part(scaled, row, there, PART, PARTS)
    key, mass = weighed(values, _greatest(greatest, row, PARTS, WIDE), upper, middle)
    drawn = tl.min(tl.where(tl.cumsum(mass, axis=0) > target, ids, V - 1), axis=0)
    at = candidates + row * 2 * TRIES + number
    tl.store(at, drawn.to(tl.int64))
    tl.store(at + TRIES, tl.sum(tl.where(ids == drawn, key, 0), axis=0).to(tl.int64))
    if (number == 0) & _is_narrow(settings, slot, COUNT):
        wanted = _wanted(settings, slot, tl.sum(every, axis=0), COUNT)
        half, before = half_reached(halves + row * 2 * HALVES, wanted * 0, wanted, "")
        tl.store(found + row * 2, half.to(tl.int64))
        tl.store(found + row * 2 + 1, before)


@triton.jit
def decide(
    scaled, seen, settings, slots, upper, middle, seeds, draws, greatest, best_ids, masses,
    halves, candidates, found, above, arrived, tokens, stream,
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
    key, mass = weighed(values, most, upper, middle)
    for number in tl.static_range(TRIES):
        limit = tl.load(candidates + row * 2 * TRIES + TRIES + number)
        here = tl.sum(tl.where(key < limit, mass, 0), axis=0)
        tl.store(above + (row * PARTS + part) * TRIES + number, here)
    slot = tl.load(slots + row)
    lower_halves = halves + (row * 2 + 1) * HALVES
    is_narrow = _is_narrow(settings, slot, COUNT)
    if is_narrow:
        own = scaled + (row * PARTS + part) * PART
        half = tl.load(found + row * 2).to(tl.int32)
        add_halves(own, most, upper, middle, lower_halves, half, PART)
    tl.debug_barrier()
    if tl.atomic_add(arrived + row, 1, sem="acq_rel") == PARTS - 1:
        parts = tl.arange(0, WIDE)
        numbers = tl.arange(0, TRIES)
        within_row = parts < PARTS
        every = tl.load(masses + row * PARTS + parts, mask=within_row, other=0)
        total = tl.sum(every, axis=0)
        wanted = _wanted(settings, slot, total, COUNT)
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
            if is_narrow:
                before = tl.load(found + row * 2 + 1)
                lower, _ = half_reached(lower_halves, before, wanted, ".cg")
                high = (tl.load(found + row * 2).to(tl.int32) << HALF_BITS) + lower
                low = high - 1
            while high - low > 1:
                middle_key = (low + high) // 2
                reached = total * 0
                for other in range(PARTS):
                    values, ids = _part(scaled, row, other, PART, PARTS)
                    key, mass = weighed(values, most, upper, middle)
                    reached += tl.sum(tl.where(key <= middle_key, mass, 0), axis=0)
                is_enough = reached >= wanted
                high = tl.where(is_enough, middle_key, high)
                low = tl.where(is_enough, low, middle_key)
            left = tl.zeros((WIDE,), dtype=tl.int64)
            for other in range(PARTS):
                # Most parts have nothing of a small nucleus: their greatest lies outside.
                best_key, _ = weighed(tl.load(greatest + row * PARTS + other), most, upper, middle)
                if best_key <= high:
                    values, ids = _part(scaled, row, other, PART, PARTS)
                    key, mass = weighed(values, most, upper, middle)
                    inside = tl.sum(tl.where(key <= high, mass, 0), axis=0)
                    left = tl.where(parts == other, inside, left)
            counter = draw * 4096 + TRIES
            there, target = _place(left, uniform_number(seed, stream, counter), WIDE)
            values, ids = _part(scaled, row, there, PART, PARTS)
            key, mass = weighed(values, most, upper, middle)
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
        if is_narrow:
            forget_counts(halves + row * 2 * HALVES)


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
        self.halves = zeros(batch, 2, HALVES.value)
        self.candidates = zeros(batch, 2, CANDIDATES)
        self.found = zeros(batch, 2)
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
        of_slots, vocab = {"COUNT": self.count}, {"V": self.vocab}
        penalised = {"PENALISED": seen is not None, **of_slots}
        known = logits if seen is None else seen
        grid = (self.parts, self.batch)
        greatest_of_parts[grid](
            logits, known, settings, slots, self.scaled, self.greatest, self.best_ids,
            **vocab, **parts, **penalised, **launch,
        )  # fmt: skip
        masses_of_parts[grid](
            self.scaled, settings, slots, *self.tables, self.greatest, self.masses, self.halves,
            **parts, **wide, **of_slots, **launch,
        )  # fmt: skip
        draw_candidates[(CANDIDATES, self.batch)](
            self.scaled, settings, slots, *self.tables, seeds, draws, self.greatest, self.masses,
            self.halves, self.candidates, self.found, self.stream,
            **vocab, **parts, **wide, **of_slots, **launch,
        )  # fmt: skip
        decide[grid](
            self.scaled, known, settings, slots, *self.tables, seeds, draws, self.greatest,
            self.best_ids, self.masses, self.halves, self.candidates, self.found, self.above,
            self.arrived, tokens, self.stream, **vocab, **parts, **wide, **penalised, **launch,
        )  # fmt: skip

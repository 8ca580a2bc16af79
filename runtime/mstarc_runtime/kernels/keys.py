"""What the kernels that choose tokens have in common: logits, and their keys and masses.

An id's key is how far its scaled logit lies below the row's greatest, its mass what it weighs in a
draw; `layers.sampler` defines both, and these are its numbers to the bit. A key has two halves: to
find the one up to which keys reach a number, what each upper half holds is added up, then what each
lower half beneath one of them does.
"""

import triton
import triton.language as tl

from mstarc_runtime.layers.sampler import (
    CANDIDATES,
    CUBIC,
    KEYS_A_LOGIT,
    LAST_KEY,
    MASS_BITS,
)

HALF_BITS = tl.constexpr(12)
HALVES = tl.constexpr(4096)
"""Values of half a key."""
AT_ONCE = tl.constexpr(512)
"""So many of them are looked at together: more would take the registers of the usual way."""
TRIES = tl.constexpr(CANDIDATES)
KEYS = tl.constexpr(float(KEYS_A_LOGIT))
MOST = tl.constexpr(float(LAST_KEY))
BITS = tl.constexpr(MASS_BITS)
UNIT = tl.constexpr(1 << MASS_BITS)
CUBED = tl.constexpr(CUBIC)


@triton.jit
def mass_of(key, upper, middle):
    """`layers.sampler.masses_of`, on i32 or i64 keys: i64."""
    rough = tl.load(upper + (key >> 19)) * tl.load(middle + ((key >> 12) & 127)) >> BITS
    last = (key & 4095).to(tl.int64)
    fine = UNIT - (last << 12) + (last * last >> 8) - (last * last * last * CUBED >> 52)
    return rough * fine >> BITS


@triton.jit
def scaled_logits(
    logits, seen, ids, inside, penalty, temperature, PENALISED: tl.constexpr
):  # fmt: skip
    """f32 of `ids` at a row's pointers `logits` and `seen`: penalised where seen, divided by the
    temperature unless it is 0, -inf where they are not `inside`. Rounded as the reference rounds,
    so that both choose alike."""
    values = tl.load(logits + ids, mask=inside, other=float("-inf")).to(tl.float32)
    if PENALISED:
        known = tl.load(seen + ids, mask=inside, other=0)
        changed = tl.where(values > 0, tl.math.div_rn(values, penalty), values * penalty)
        values = tl.where(known != 0, changed, values)
    return tl.math.div_rn(values, tl.where(temperature > 0, temperature, 1.0))


@triton.jit
def weighed(values, greatest, upper, middle):
    """(key i32, mass i64) of scaled logits, by how far they are below the greatest."""
    key = tl.minimum((greatest - values) * KEYS, MOST).to(tl.int32)
    return key, mass_of(key, upper, middle)


@triton.jit
def half_reached(counts, before, wanted, CACHE: tl.constexpr):
    """(first half of a key up to which `counts` [HALVES] and what is `before` them reach `wanted`;
    what comes before that half)."""
    half = tl.full((), HALVES - 1, tl.int32)
    ahead = before
    for first in range(0, HALVES, AT_ONCE):
        halves = first + tl.arange(0, AT_ONCE)
        every = tl.load(counts + halves, cache_modifier=CACHE)
        reached = tl.cumsum(every, axis=0) + ahead
        half = tl.minimum(half, tl.min(tl.where(reached >= wanted, halves, HALVES - 1), axis=0))
        before += tl.sum(tl.where(reached < wanted, every, 0), axis=0)
        ahead += tl.sum(every, axis=0)
    return half, before


@triton.jit
def forget_counts(counts):
    """Sets `counts` [2, HALVES] to zero."""
    for first in range(0, 2 * HALVES, AT_ONCE):
        at = counts + first + tl.arange(0, AT_ONCE)
        tl.store(at, tl.zeros((AT_ONCE,), dtype=counts.dtype.element_ty))


@triton.jit
def add_halves(scaled, most, upper, middle, halves, beneath, PART: tl.constexpr):
    """Adds masses to those of their keys' upper halves or, `beneath` one of these, lower ones."""
    for first in range(0, PART, AT_ONCE):
        values = tl.load(scaled + first + tl.arange(0, AT_ONCE))
        key, mass = weighed(values, most, upper, middle)
        high = key >> HALF_BITS
        half = tl.where(beneath < 0, high, key & (HALVES - 1))
        counts = (mass > 0) & ((beneath < 0) | (high == beneath))
        tl.atomic_add(halves + half, mass, mask=counts, sem="relaxed")

"""A codec's convolutions as matrix products on the tensor cores: float32 numbers, channels last.

A sequence is f32[B, T, C] and holds positions `begin`.. of a longer one, of which it has all that
its readers need: what lies beyond it is zero. Products are one kernel, `product`, in three forms of
rows and three of what is done to them:

    ROWS     a convolution of width 1
    PAIRS    a transposed convolution, of width twice its stride: an output comes of two inputs, so
             a row holds two positions, and its product the `stride` positions that they make
    DILATED  a convolution of width 1 behind a snake behind a depthwise one of width 7

    PLAIN    product + bias
    NOISE    x + noise * product, where noise is a hash of the codes
    CHANGE   x + product + bias

What comes of it is kept as it is, or behind the next convolution's snake, or both. `latent` makes
the first sequence of codes, `samples` the sound of the last. Each number is added up in one order,
whatever else is in the batch.
"""

import triton
import triton.language as tl

ROWS, PAIRS, DILATED = (tl.constexpr(kind) for kind in range(3))
PLAIN, NOISE, CHANGE = (tl.constexpr(kind) for kind in range(3))
WIDTH = tl.constexpr(7)
"""Taps of all convolutions that are wider than 1."""

_PI = tl.constexpr(3.141592653589793)
_FRACTION = tl.constexpr(2.0**-24)


@triton.jit
def _mix(x):
    """`layers.counter_hash.mix`, on u64."""
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def _normal(seed, stream, counter):
    """`layers.counter_hash.normal`: f32 of u64 seeds."""
    hashed = _mix(_mix(_mix(seed) + stream.to(tl.uint64)) + counter.to(tl.uint64))
    radius = ((hashed >> 40).to(tl.float32) + 1.0) * _FRACTION
    angle = ((hashed >> 16) & 0xFFFFFF).to(tl.float32) * (2.0 * _PI * _FRACTION)
    return tl.sqrt(-2.0 * tl.log(radius)) * tl.cos(angle)


@triton.jit
def _snake(x, alpha, inverse):
    """x + sin(alpha * x) ** 2 * inverse.

    The square of a sine has a period of pi: what is left of it lies within a quarter turn of zero,
    where a polynomial is exact to a bit or two of float32.
    """
    y = x * alpha
    turns = tl.floor(y * (1.0 / _PI) + 0.5)
    # pi in three parts, the first two short: their products with whole numbers are exact.
    r = y - turns * 3.140625
    r = r - turns * 0.000967502593994140625
    r = r - turns * 1.509957990978376e-07
    square = r * r
    p = -2.3889859e-08 * square + 2.7525562e-06
    p = p * square - 0.00019840874
    p = p * square + 0.0083333310
    p = p * square - 0.16666667
    sine = r + r * square * p
    return x + sine * sine * inverse


@triton.jit(do_not_specialize=["count", "begin", "T"])
def latent(
    codes,
    first,
    second,
    third,
    taps,
    bias,
    out,
    seeds,
    count,
    begin,
    T,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out f32[B, T, C]: levels of `codes` i64[B, 7 * count] looked up, added, convolved.

    `count`: codes of the coarsest level; its tables are f32[codes, C]. `seeds` u64[B]: a hash of
    each row of codes.
    """
    row = tl.program_id(0)
    time = tl.program_id(1)
    channels = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channels < C
    codes += row.to(tl.int64) * 7 * count
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(7):
        at = begin + time + tap - 3
        there = (at >= 0) & (at < 4 * count)
        read = tl.minimum(tl.maximum(at, 0), 4 * count - 1)
        a = tl.load(codes + read // 4)
        b = tl.load(codes + count + read // 2)
        c = tl.load(codes + 3 * count + read)
        mask = inside & there
        value = tl.load(first + a * C + channels, mask=mask, other=0.0)
        value += tl.load(second + b * C + channels, mask=mask, other=0.0)
        value += tl.load(third + c * C + channels, mask=mask, other=0.0)
        total += value * tl.load(taps + tap * C + channels, mask=inside, other=0.0)
    total += tl.load(bias + channels, mask=inside, other=0.0)
    tl.store(out + (row.to(tl.int64) * T + time) * C + channels, total, mask=inside)
    if (time == 0) & (tl.program_id(2) == 0):
        place = tl.arange(0, 128)
        listed = place < 7 * count
        number = tl.load(codes + place, mask=listed, other=0).to(tl.uint64)
        hashed = _mix(_mix(number) + _mix(place.to(tl.uint64)))
        hashed = tl.where(listed, hashed, tl.zeros_like(hashed))
        tl.store(seeds + row, tl.sum(hashed.to(tl.int64), axis=0))


@triton.jit(
    do_not_specialize=[
        "begin_in",
        "T_in",
        "begin_row",
        "rows",
        "shift",
        "begin",
        "T",
        "M",
        "dilation",
        "stream",
    ]
)
def product(
    x,
    weight,
    bias,
    taps,
    taps_bias,
    alpha_in,
    inverse_in,
    beside,
    seeds,
    alpha,
    inverse,
    out,
    snaked,
    begin_in,
    T_in,
    begin_row,
    rows,
    shift,
    begin,
    T,
    M,
    dilation,
    stream,
    K,
    N,
    C,
    FORM: tl.constexpr,
    EFFECT: tl.constexpr,
    KEPT: tl.constexpr,
    SNAKED: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Sequences `out` and `snaked` f32[B, T, C] from `begin` of x f32[B, T_in, ·] from `begin_in`.

    `weight` [N, K]. Row m is position `begin_row` + m % rows of request m // rows. Column n of its
    product is channel n % C of output position (row's position) * (N / C) + n // C - shift.
    `beside`: the x of NOISE and CHANGE, f32[B, T, C] for NOISE, which are x itself; for CHANGE from
    `begin_in` as x.
    """
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    is_row = m < M
    request = (m // rows).to(tl.int64)
    position = begin_row + m % rows
    width = K // 2 if FORM == PAIRS else K
    start = request * T_in - begin_in
    sums = tl.zeros((BM, BN), tl.float32)
    weights = weight + n[None, :].to(tl.int64) * K + k[:, None]
    for first in range(0, K, BK):
        if FORM == DILATED:
            columns = first + k
            h = tl.zeros((BM, BK), tl.float32)
            for tap in tl.static_range(7):
                at = position + (tap - 3) * dilation
                mask = is_row & (at >= begin_in) & (at < begin_in + T_in)
                read = tl.load(
                    x + (start + at)[:, None] * K + columns[None, :], mask=mask[:, None], other=0.0
                )
                h += read * tl.load(taps + tap * K + columns)[None, :]
            h += tl.load(taps_bias + columns)[None, :]
            a = _snake(
                h, tl.load(alpha_in + columns)[None, :], tl.load(inverse_in + columns)[None, :]
            )
        else:
            at = position
            columns = first + k
            if FORM == PAIRS:
                half = (first >= width).to(tl.int32)
                at = position - 1 + half
                columns = columns - half * width
            mask = is_row & (at >= begin_in) & (at < begin_in + T_in)
            a = tl.load(
                x + (start + at)[:, None] * width + columns[None, :], mask=mask[:, None], other=0.0
            )
        b = tl.load(weights + first, mask=(n < N)[None, :], other=0.0)
        sums = tl.dot(a.to(b.dtype), b, sums, input_precision=PRECISION)
    channel = n % C
    at = position[:, None] * (N // C) + (n // C)[None, :] - shift
    inside = is_row[:, None] & (n < N)[None, :] & (at >= begin) & (at < begin + T)
    place = (request[:, None] * T + at - begin) * C + channel[None, :]
    if HAS_BIAS:
        sums += tl.load(bias + channel)[None, :]
    if EFFECT == NOISE:
        drawn = _normal(
            tl.load(seeds + request, mask=is_row, other=0).to(tl.uint64), stream, position
        )
        sums = tl.load(beside + place, mask=inside, other=0.0) + drawn[:, None] * sums
    elif EFFECT == CHANGE:
        before = (start[:, None] + at) * C + channel[None, :]
        sums += tl.load(beside + before, mask=inside, other=0.0)
    if KEPT:
        tl.store(out + place, sums, mask=inside)
    if SNAKED:
        sums = _snake(sums, tl.load(alpha + channel)[None, :], tl.load(inverse + channel)[None, :])
        tl.store(snaked + place, sums, mask=inside)


@triton.jit(do_not_specialize=["begin_in", "T_in", "begin", "T"])
def samples(
    x,
    taps,
    bias,
    out,
    begin_in,
    T_in,
    begin,
    T,
    C: tl.constexpr,
    LANES: tl.constexpr,
    BT: tl.constexpr,
):
    """out f32[B, T] from `begin`: tanh of a convolution of x f32[B, T_in, C] to one channel."""
    row = tl.program_id(1).to(tl.int64)
    time = tl.program_id(0) * BT + tl.arange(0, BT)
    channels = tl.arange(0, LANES)
    total = tl.zeros((BT, LANES), tl.float32)
    for tap in tl.static_range(7):
        at = begin + time + tap - 3
        mask = (at >= begin_in) & (at < begin_in + T_in)
        read = tl.load(
            x + (row * T_in + at - begin_in)[:, None] * C + channels[None, :],
            mask=mask[:, None] & (channels < C)[None, :],
            other=0.0,
        )
        total += read * tl.load(taps + tap * C + channels, mask=channels < C, other=0.0)[None, :]
    sound = tl.sum(total, axis=1) + tl.load(bias)
    # tanh, whose exponent never overflows.
    falling = tl.exp(-2.0 * tl.abs(sound))
    size = (1.0 - falling) / (1.0 + falling)
    tl.store(out + row * T + time, tl.where(sound < 0, -size, size), mask=time < T)

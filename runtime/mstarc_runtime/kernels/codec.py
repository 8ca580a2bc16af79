"""A codec's convolutions as matrix products on the tensor cores, channels last.

A sequence is [B, T, C] and holds positions `begin`.. of a longer one, of which it has all that its
readers need: what lies beyond it is zero. What is added to later is kept in float32; what the next
convolution reads is kept behind its snake, which is so computed once and not for each tap, and in
the type of its weights. Sums are float32; float16 numbers saturate.

    latent      codes → the first sequence
    depthwise   a depthwise convolution of width 7, and a snake
    product     x [M, K] times weight [N, K], in two forms of rows:

        ROWS    a convolution of width 1
        PAIRS   a transposed convolution, of width twice its stride: an output comes of two inputs,
                so a row holds two positions, and its product the `stride` positions they make

    samples     the last sequence → sound

To a product is done nothing more than a bias (PLAIN), or it is a CHANGE: added to what is beside
it; or, for NOISE, it is multiplied by noise, which is a hash of the codes, and then added. MIXED is
a PLAIN one whose own product with `mixing` is NOISE. Each number is added up in one order, whatever
else is in the batch. CHAINED kernels start early (see `dependent`).
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.counter_hash import mix, normal_number
from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous

ROWS, PAIRS = (tl.constexpr(kind) for kind in range(2))
PLAIN, NOISE, CHANGE, MIXED = (tl.constexpr(kind) for kind in range(4))

_PI = tl.constexpr(3.141592653589793)


@triton.jit
def snake(x, alpha, inverse):
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


@triton.jit
def _kept_as(x, out):
    """x in the type of what `out` points to; beyond float16's numbers the greatest one."""
    if x.dtype != out.dtype.element_ty:
        if out.dtype.element_ty == tl.float16:
            x = tl.minimum(tl.maximum(x, -65504.0), 65504.0)
        x = x.to(out.dtype.element_ty)
    return x


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
    CHAINED: tl.constexpr,
):
    """out [B, T, C]: levels of `codes` i64[B, 7 * count] looked up, added, convolved.

    `count`: codes of the coarsest level; its tables are f32[codes, C]. `seeds` u64[B]: a hash of
    each row of codes.
    """
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
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
    tl.store(out + (row.to(tl.int64) * T + time) * C + channels, _kept_as(total, out), mask=inside)
    if (time == 0) & (tl.program_id(2) == 0):
        place = tl.arange(0, 128)
        listed = place < 7 * count
        number = tl.load(codes + place, mask=listed, other=0).to(tl.uint64)
        hashed = mix(mix(number) + mix(place.to(tl.uint64)))
        hashed = tl.where(listed, hashed, tl.zeros_like(hashed))
        tl.store(seeds + row, tl.sum(hashed.to(tl.int64), axis=0))


@triton.jit(do_not_specialize=["begin_in", "T_in", "begin", "T", "M", "dilation"])
def depthwise(
    x,
    taps,
    bias,
    alpha,
    inverse,
    out,
    begin_in,
    T_in,
    begin,
    T,
    M,
    dilation,
    C,
    BM: tl.constexpr,
    BC: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """out [B, T, C] from `begin`, M = B * T, of x [B, T_in, C] from `begin_in`: a snake behind a
    convolution with `taps` f32[7, C]."""
    allow_next(CHAINED)
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    request = m // T
    position = begin + m % T
    total = tl.zeros((BM, BC), tl.float32) + tl.load(bias + channels)[None, :]
    wait_for_previous(CHAINED)
    for tap in tl.static_range(7):
        at = position + (tap - 3) * dilation
        mask = (m < M) & (at >= begin_in) & (at < begin_in + T_in)
        rows = x + (request.to(tl.int64) * T_in + at - begin_in) * C
        read = tl.load(rows[:, None] + channels[None, :], mask=mask[:, None], other=0.0)
        total += read.to(tl.float32) * tl.load(taps + tap * C + channels)[None, :]
    made = snake(total, tl.load(alpha + channels)[None, :], tl.load(inverse + channels)[None, :])
    rows = out + m.to(tl.int64) * C
    tl.store(rows[:, None] + channels[None, :], _kept_as(made, out), mask=(m < M)[:, None])


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
        "stream",
    ]
)
def product(
    x,
    weight,
    bias,
    mixing,
    beside,
    seeds,
    alpha,
    inverse,
    out,
    snaked,
    begin_in,
    T_in,
    begin_beside,
    T_beside,
    begin_row,
    rows,
    shift,
    begin,
    T,
    M,
    stream,
    K,
    N,
    C,
    FORM: tl.constexpr,
    EFFECT: tl.constexpr,
    KEPT: tl.constexpr,
    SNAKED: tl.constexpr,
    ADDED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """`out` f32 and `snaked` [B, T, C] from `begin` of x [B, T_in, .] from `begin_in`.

    Row m is position `begin_row` + m % rows of request m // rows. Column n of its product is
    channel n % C of output position (row's position) * (N / C) + n // C - shift. `beside` f32[B,
    T_beside, C] from `begin_beside`, ADDED for NOISE and CHANGE. For MIXED a block's columns are
    all channels of one position.
    """
    allow_next(CHAINED)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    is_row = m < M
    request = (m // rows).to(tl.int64)
    position = begin_row + m % rows
    width = K // 2 if FORM == PAIRS else K
    start = request * T_in - begin_in
    channel = n % C
    made = position[:, None] * (N // C) + (n // C)[None, :] - shift
    inside = is_row[:, None] & (n < N)[None, :] & (made >= begin) & (made < begin + T)
    weights = weight + n[None, :].to(tl.int64) * K + k[:, None]
    sums = tl.zeros((BM, BN), tl.float32)
    if EFFECT != NOISE:
        sums += tl.load(bias + channel)[None, :]
    wait_for_previous(CHAINED)
    if ADDED:
        place = (request[:, None] * T_beside + made - begin_beside) * C + channel[None, :]
        before = tl.load(beside + place, mask=inside, other=0.0)
    for first in range(0, K, BK):
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
        sums = tl.dot(_kept_as(a, weight), b, sums, input_precision=PRECISION)
    if EFFECT == CHANGE:
        sums += before
    elif EFFECT == NOISE:
        seed = tl.load(seeds + request, mask=is_row, other=0).to(tl.uint64)
        sums = before + normal_number(seed, stream, position)[:, None] * sums
    elif EFFECT == MIXED:
        lane = tl.arange(0, BN)
        other = tl.load(mixing + lane[None, :] * BN + lane[:, None])
        mixed = tl.dot(_kept_as(sums, mixing), other, input_precision=PRECISION)
        seed = tl.load(seeds + request, mask=is_row, other=0).to(tl.uint64)
        time = position * (N // C) + tl.program_id(1) - shift
        sums += normal_number(seed, stream, time)[:, None] * mixed
    place = (request[:, None] * T + made - begin) * C + channel[None, :]
    if KEPT:
        tl.store(out + place, sums, mask=inside)
    if SNAKED:
        sums = snake(sums, tl.load(alpha + channel)[None, :], tl.load(inverse + channel)[None, :])
        tl.store(snaked + place, _kept_as(sums, snaked), mask=inside)


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
    CHAINED: tl.constexpr,
):
    """out f32[B, T] from `begin`: tanh of a convolution of x [B, T_in, C] to one channel."""
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
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
        total += (
            read.to(tl.float32)
            * tl.load(taps + tap * C + channels, mask=channels < C, other=0.0)[None, :]
        )
    sound = tl.sum(total, axis=1) + tl.load(bias)
    # tanh, whose exponent never overflows.
    falling = tl.exp(-2.0 * tl.abs(sound))
    size = (1.0 - falling) / (1.0 + falling)
    tl.store(out + row * T + time, tl.where(sound < 0, -size, size), mask=time < T)

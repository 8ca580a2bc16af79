"""A vocoder's dense convolutions as matrix products on the tensor cores, channels last.

Sequences are [B, T, C], contiguous, and end at the same moment, so positions are counted from the
end: a convolution makes the last ones of what it could make of its input. What stands before an
input's first position is zero. Sums are float32, numbers are kept in the type of the weights.

    convolution   causal, of any width and dilation; or a transposed one, of width twice its stride:
                  `stride` positions come of an input and the one before it, so it is a convolution
                  of width 2 with `stride` times as many columns, which are positions in turn
    samples       the last convolution, to one channel

What the next convolution reads is kept behind its snake, which is so computed once and not for each
tap; the number itself is kept only where something is added to it later.
"""

import triton
import triton.language as tl

from mstarc_runtime.kernels.codec import snake


@triton.jit(do_not_specialize=["T_in", "T_beside", "T", "M", "back", "dilation"])
def convolution(
    x,
    weight,
    bias,
    beside,
    rate,
    depth,
    out,
    snaked,
    T_in,
    T_beside,
    T,
    M,
    back,
    dilation,
    K,
    N,
    C,
    TAPS: tl.constexpr,
    ADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SNAKED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """`out` and `snaked` [B, T, N] of x [B, T_in, K] with `weight` [N, TAPS * K]; M = B * T.

    Tap i hears `back - i * dilation` positions back. `bias`, `rate` and `depth` f32[C] are of
    channel n % C; `beside` [B, T_beside, N] is ADDED. BK divides K. GROUP blocks of rows run side
    by side, so that they share what they read of the weights.
    """
    blocks_m = tl.cdiv(M, BM)
    blocks_n = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    first = pid // (GROUP * blocks_n) * GROUP
    group = tl.minimum(blocks_m - first, GROUP)
    inside = pid % (GROUP * blocks_n)
    m = (first + inside % group) * BM + tl.arange(0, BM)
    n = (inside // group) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    request = (m // T).to(tl.int64)
    time = m % T
    begin = T_in - T + time - back
    rows = x + (request * T_in + begin) * K
    weights = weight + n[None, :].to(tl.int64) * (TAPS * K) + k[:, None]
    sums = tl.zeros((BM, BN), tl.float32)
    for at in range(0, TAPS * K, BK):
        tap = at // K
        shift = tap * dilation
        is_there = (m < M) & (begin + shift >= 0)
        a = tl.load(
            rows[:, None] + (shift * K + at - tap * K + k)[None, :],
            mask=is_there[:, None],
            other=0.0,
        )
        b = tl.load(weights + at, mask=(n < N)[None, :], other=0.0)
        sums = tl.dot(a, b, sums)
    channel = n % C
    is_real = (m < M)[:, None] & (n < N)[None, :]
    sums += tl.load(bias + channel)[None, :]
    if ADDED:
        place = (request * T_beside + T_beside - T + time)[:, None] * N + n[None, :]
        sums += tl.load(beside + place, mask=is_real, other=0.0).to(tl.float32)
    place = m.to(tl.int64)[:, None] * N + n[None, :]
    if KEPT:
        tl.store(out + place, sums.to(out.dtype.element_ty), mask=is_real)
    if SNAKED:
        sums = snake(sums, tl.load(rate + channel)[None, :], tl.load(depth + channel)[None, :])
        tl.store(snaked + place, sums.to(snaked.dtype.element_ty), mask=is_real)


@triton.jit(do_not_specialize=["T_in", "T"])
def samples(
    x,
    taps,
    bias,
    out,
    T_in,
    T,
    C: tl.constexpr,
    TAPS: tl.constexpr,
    LANES: tl.constexpr,
    BT: tl.constexpr,
):
    """out f32[B, T] in -1 .. 1: a causal convolution of x [B, T_in, C] with `taps` f32[TAPS, C]."""
    row = tl.program_id(1).to(tl.int64)
    time = tl.program_id(0) * BT + tl.arange(0, BT)
    channels = tl.arange(0, LANES)
    total = tl.zeros((BT, LANES), tl.float32)
    for tap in tl.static_range(TAPS):
        at = T_in - T + time + tap - (TAPS - 1)
        mask = (time < T) & (at >= 0)
        read = tl.load(
            x + (row * T_in + at)[:, None] * C + channels[None, :],
            mask=mask[:, None] & (channels < C)[None, :],
            other=0.0,
        )
        scale = tl.load(taps + tap * C + channels, mask=channels < C, other=0.0)
        total += read.to(tl.float32) * scale[None, :]
    sound = tl.sum(total, axis=1) + tl.load(bias)
    sound = tl.minimum(tl.maximum(sound, -1.0), 1.0)
    tl.store(out + row * T + time, sound, mask=time < T)

"""`layers.counter_hash` in kernels: numbers that depend on a seed and a counter alone."""

import triton
import triton.language as tl

_PI = tl.constexpr(3.141592653589793)
_FRACTION = tl.constexpr(2.0**-24)


@triton.jit
def mix(x):
    """A hash of a number u64."""
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def uniform_number(seed, stream, counter):
    """`layers.counter_hash.uniform`, as f64."""
    x = mix(mix(seed.to(tl.uint64)) + tl.full((), stream, tl.uint64))
    x = mix(x + counter.to(tl.uint64))
    return (x >> 40).to(tl.int64).to(tl.float64) * 5.9604644775390625e-08


@triton.jit
def normal_number(seed, stream, counter):
    """`layers.counter_hash.normal`: f32 of u64 seeds."""
    hashed = mix(mix(mix(seed) + stream.to(tl.uint64)) + counter.to(tl.uint64))
    radius = ((hashed >> 40).to(tl.float32) + 1.0) * _FRACTION
    angle = ((hashed >> 16) & 0xFFFFFF).to(tl.float32) * (2.0 * _PI * _FRACTION)
    return tl.sqrt(-2.0 * tl.log(radius)) * tl.cos(angle)

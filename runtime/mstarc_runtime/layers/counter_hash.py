"""Random numbers without a generator: a hash of a seed and counters, in tensor arithmetic.

The same arguments give the same numbers on every device, in any batch, inside a CUDA graph or not.
The hash is splitmix64's finaliser over int64, whose sums and products wrap.
"""

import math

import torch
from torch import Tensor

# splitmix64's constants, as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)
_FRACTION = 2.0**-24


def mix(x: Tensor) -> Tensor:
    """A hash of each number of `x` i64[...]."""
    x = x + _GOLDEN
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


def uniform(seed: Tensor, stream: int, counter: Tensor) -> Tensor:
    """f32[...] in [0, 1), of `seed`, `stream` and `counter` i64[...], which broadcast."""
    return _shift_right(_hash(seed, stream, counter), 40).float() * _FRACTION


def normal(seed: Tensor, stream: int, counter: Tensor) -> Tensor:
    """f32[...] of mean 0 and variance 1, arguments as for `uniform`."""
    hashed = _hash(seed, stream, counter)
    radius = (_shift_right(hashed, 40).float() + 1.0) * _FRACTION
    angle = (_shift_right(hashed, 16) & 0xFFFFFF).float() * (2 * math.pi * _FRACTION)
    return torch.sqrt(-2.0 * torch.log(radius)) * torch.cos(angle)


def fold(numbers: Tensor) -> Tensor:
    """i64[B]: one hash of each row of `numbers` i64[B, N], order included."""
    place = torch.arange(numbers.shape[1], device=numbers.device)
    return mix(mix(numbers) + mix(place)).sum(-1)


def _hash(seed: Tensor, stream: int, counter: Tensor) -> Tensor:
    return mix(mix(mix(seed) + stream) + counter)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """The shift of unsigned numbers: zeros come in from above."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)

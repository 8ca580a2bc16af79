"""Random numbers from a counter, the same on every device and in any order.

(seed, index) → uniform float32 in [0, 1) by the splitmix64 hash of the seed plus the index's
multiple of its increment. Integers wrap as in C and the last step is one exact multiplication, so a
CPU and a GPU give the same bits. No generator, no state.
"""

import hashlib
import math
from typing import Final

import torch
from torch import Tensor

_INCREMENT: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2: Final = 0x94D049BB133111EB - (1 << 64)
_UNIT: Final = 2.0**-24


def seed_of(*words: str | int) -> int:
    """A 63-bit seed that depends on the words alone."""
    digest = hashlib.blake2b("\0".join(map(str, words)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def uniform(seed: int, count: int, device: torch.device, *, start: int = 0) -> Tensor:
    """f32[count] in [0, 1): the numbers start … start + count - 1 of `seed`'s sequence."""
    state = torch.arange(start + 1, start + count + 1, device=device, dtype=torch.int64)
    state.mul_(_INCREMENT).add_(seed)
    state.bitwise_xor_(_shift_right(state, 30)).mul_(_MIX_1)
    state.bitwise_xor_(_shift_right(state, 27)).mul_(_MIX_2)
    state.bitwise_xor_(_shift_right(state, 31))
    return _shift_right(state, 40).to(torch.float32).mul_(_UNIT)


def normal(seed: int, count: int, device: torch.device) -> Tensor:
    """f32[count] of the standard normal distribution (Box-Muller on two uniform sequences)."""
    half = (count + 1) // 2
    pairs = uniform(seed, 2 * half, device)
    # 1 - u is in (0, 1]: its logarithm is finite.
    radius = pairs[:half].neg_().add_(1.0).log_().mul_(-2.0).sqrt_()
    angle = pairs[half:].mul_(2.0 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count]


def _shift_right(values: Tensor, bits: int) -> Tensor:
    """A shift that brings in zeros; torch's own brings in the sign."""
    return values.bitwise_right_shift(bits).bitwise_and_((1 << (64 - bits)) - 1)

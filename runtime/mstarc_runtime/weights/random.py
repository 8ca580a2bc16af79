"""Parameters without a checkpoint: each drawn from its own name and a seed.

A module → the same module filled. A value depends on (seed, prefix, parameter's name, index) alone,
not on the device, the order or the other parameters, so every process and placement gets the same
model. Matrices are uniform with a variance of 1 / fan-in and scales are near 1, so that activations
stay finite through any depth.
"""

import math
import re
from typing import Final

import torch
from torch import Tensor, nn

from mstarc_runtime.layers.shard import Portion, portions
from mstarc_runtime.weights.counter import seed_of, uniform
from mstarc_runtime.weights.load import weight_map

_BLOCK: Final = 1 << 22
_SMALL: Final = 0.02
_EMBEDDING = re.compile(r"(^|[._])(embed|embedding|embeddings|wte|wpe|voices|style)", re.IGNORECASE)
_SCALE_NAMES: Final = ("weight", "gamma", "scale", "alpha")


@torch.no_grad()
def randomise(
    module: nn.Module, *, seed: int = 0, under: str = "", device: torch.device | None = None
) -> None:
    """Fill every parameter and mapped buffer of `module` in place.

    Parameters on the meta device are made on `device` (the CPU if it is None).
    """
    held = portions(module)
    for name in sorted({*weight_map(module), *(n for n, _ in module.named_parameters())}):
        parent_name, _, leaf = name.rpartition(".")
        parent = module.get_submodule(parent_name)
        target: Tensor = getattr(parent, leaf)
        if target.is_meta:
            made = torch.empty_like(target, device=device or torch.device("cpu"))
            is_parameter = isinstance(target, nn.Parameter)
            setattr(
                parent, leaf, nn.Parameter(made, target.requires_grad) if is_parameter else made
            )
            target = getattr(parent, leaf)
        portion = held.get(name)
        whole = target.shape if portion is None else torch.Size(portion.whole)
        centre, spread = _distribution(name, whole)
        start_seed = seed_of("weights", seed, under + name)
        if portion is None:
            _fill(target, start_seed, centre, spread)
        else:
            _fill_portion(target, portion, start_seed, centre, spread)


def _distribution(name: str, shape: torch.Size) -> tuple[float, float]:
    """The mean and the standard deviation of the values of a whole parameter."""
    is_vector = shape.numel() == max(shape, default=1)
    words = name.lower().split(".")
    if is_vector and (words[-1] in _SCALE_NAMES or any("alpha" in word for word in words[-2:])):
        return 1.0, _SMALL
    if is_vector:
        return 0.0, _SMALL
    if _EMBEDDING.search(name):
        return 0.0, 0.5
    fan_in = shape.numel() // shape[0]
    return 0.0, 1.0 / math.sqrt(fan_in)


def _fill(target: Tensor, seed: int, centre: float, spread: float) -> None:
    flat = torch.empty(target.numel(), dtype=target.dtype, device=target.device)
    _fill_flat(flat, 0, seed, centre, spread)
    target.copy_(flat.view(target.shape))


def _fill_portion(
    target: Tensor, portion: Portion, seed: int, centre: float, spread: float
) -> None:
    """The values that the whole parameter has there: as many of its rows at a time as a block."""
    inner = math.prod(portion.whole[1:])
    made = 0
    for first, last in portion.ranges if portion.dim == 0 else [(0, portion.whole[0])]:
        for start in range(first, last, max(1, _BLOCK // inner)):
            stop = min(last, start + max(1, _BLOCK // inner))
            flat = torch.empty((stop - start) * inner, dtype=target.dtype, device=target.device)
            _fill_flat(flat, start * inner, seed, centre, spread)
            rows = flat.view(stop - start, *portion.whole[1:])
            if portion.dim:
                parts = [rows.narrow(portion.dim, a, b - a) for a, b in portion.ranges]
                rows = torch.cat(parts, dim=portion.dim)
            target[made : made + stop - start] = rows
            made += stop - start


def _fill_flat(flat: Tensor, first: int, seed: int, centre: float, spread: float) -> None:
    """Values from number `first` on, in place."""
    width = spread * math.sqrt(12.0)
    for start in range(0, flat.numel(), _BLOCK):
        count = min(_BLOCK, flat.numel() - start)
        values = uniform(seed, count, flat.device, start=first + start)
        flat[start : start + count] = values.sub_(0.5).mul_(width).add_(centre)

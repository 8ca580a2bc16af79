"""What a time of 0 .. 1 becomes: a row that decides the norms of the expert that acts.

On a GPU rows of times are remembered, since requests ask for the same few (`kernels.remembered`).
"""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.models.pi05.gemma import Timed, TimedNorms

if TYPE_CHECKING:
    from mstarc_runtime.kernels.remembered import RememberedProduct

# Shortest and longest wave in which a time is written.
_WAVES = (4e-3, 4.0)


class Times:
    """Two layers behind a time's waves, and the norms that they decide."""

    def __init__(self, into: Linear, out: Linear, norms: TimedNorms) -> None:
        self._into, self._out, self._norms = into, out, norms
        self._remembered: tuple[RememberedProduct, ...] | None = None

    def at(self, t: Tensor) -> list[Timed]:
        """What times f32[B] make of each norm."""
        weight = self._into.weight
        if t.device.type == "cuda" and weight.dtype.itemsize == 2:
            first, second, third = self._products()
            return self._norms.of(third(t, second(t, first(t))))
        angles = t.double()[:, None] * _turns(weight.shape[1] // 2, t.device)
        row = torch.cat((angles.sin(), angles.cos()), dim=-1).to(weight.dtype)
        row = functional.silu(self._out(functional.silu(self._into(row))))
        return self._norms.of(functional.linear(row, self._norms.weight, self._norms.bias))

    def _products(self) -> "tuple[RememberedProduct, ...]":
        if self._remembered is None:
            from mstarc_runtime.kernels.remembered import RememberedProduct

            into, out, norms = self._into, self._out, self._norms
            assert into.bias is not None and out.bias is not None
            turns = _turns(into.weight.shape[1] // 2, into.weight.device)
            self._remembered = (
                RememberedProduct(into.weight, into.bias, silu=True, turns=turns),
                RememberedProduct(out.weight, out.bias, silu=True),
                RememberedProduct(norms.weight, norms.bias),
            )
        return self._remembered


def _turns(count: int, device: torch.device) -> Tensor:
    """f64[count]: radians a unit of time of each wave."""
    shortest, longest = _WAVES
    places = torch.linspace(0.0, 1.0, count, dtype=torch.float64, device=device)
    waves = shortest * (longest / shortest) ** places
    return 2 * math.pi / waves

"""Rotary positions: pairs of a head's numbers turned by an angle that grows with the position.

Angles come from a table over positions, made once per device at first use (so before any capture):
a row's cosines are then read, never computed beside other rows'.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from mstarc_runtime.layers.config import bad_config

Pairing = Literal["halves", "neighbours"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Stretches slow rotations by `factor`, keeps fast ones, and blends between the two."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_positions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeSettings:
    """`linear` divides all positions. `pairing`: which two numbers turn together, i and
    i + head_dim / 2 (`halves`, checkpoints in the transformers layout) or 2i and 2i + 1."""

    head_dim: int
    theta: float
    positions: int
    llama3: Llama3Scaling | None = None
    linear: float = 1.0
    pairing: Pairing = "halves"

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, head_dim: int) -> "RopeSettings":
        """The settings that a checkpoint's config.json asks for, in its older or newer keys.

        Fails with MS9109 where it asks for a scaling that isn't known here.
        """
        given = config.get("rope_parameters") or config.get("rope_scaling") or {}
        theta = float(given.get("rope_theta", config.get("rope_theta", 10000.0)))
        positions = int(config.get("max_position_embeddings", 2048))
        kind = given.get("rope_type", given.get("type", "default"))
        if kind == "default":
            return cls(head_dim=head_dim, theta=theta, positions=positions)
        if kind == "linear":
            factor = float(given["factor"])
            return cls(head_dim=head_dim, theta=theta, positions=positions, linear=factor)
        if kind == "llama3":
            scaling = Llama3Scaling(
                factor=float(given["factor"]),
                low_freq_factor=float(given["low_freq_factor"]),
                high_freq_factor=float(given["high_freq_factor"]),
                original_positions=int(given["original_max_position_embeddings"]),
            )
            return cls(head_dim=head_dim, theta=theta, positions=positions, llama3=scaling)
        raise bad_config("rope_type", kind, "`default`, `linear` or `llama3`")


def frequencies(settings: RopeSettings) -> Tensor:
    """f32[head_dim / 2]: radians a position of every pair."""
    exponents = torch.arange(0, settings.head_dim, 2, dtype=torch.float32) / settings.head_dim
    base = 1.0 / (settings.theta**exponents)
    if settings.llama3 is None:
        return base / settings.linear
    scaling = settings.llama3
    turns = scaling.original_positions * base / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return (1 - kept) * base / scaling.factor + kept * base


class Rope:
    """Turns queries and keys. No parameters; the table is this object's own."""

    def __init__(self, settings: RopeSettings) -> None:
        self.settings = settings
        # Cosines and sines f32[2, positions, head_dim / 2].
        self._tables: dict[torch.device, Tensor] = {}

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines f32[R, 1, head_dim / 2] of `positions` i64[R], for all layers."""
        cosines, sines = self.table(positions.device)
        return (
            cosines.index_select(0, positions).unsqueeze(1),
            sines.index_select(0, positions).unsqueeze(1),
        )

    def turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines f32[R, head_dim] by which each number of a head is turned."""
        assert self.settings.pairing == "halves", "neighbours have angles side by side"
        # A position's row twice is what both halves of a head are turned by.
        twice = positions[:, None].expand(-1, 2).flatten()
        rows = self._table(positions.device).index_select(1, twice)
        cosines, sines = rows.view(2, len(positions), -1).unbind()
        return cosines, sines

    def turn(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """`x` [R, H, head_dim] turned by the rows' angles, in x's dtype."""
        cosine, sine = angles
        if self.settings.pairing == "halves":
            first, second = x.chunk(2, dim=-1)
            turned = torch.cat(
                (first * cosine - second * sine, second * cosine + first * sine), dim=-1
            )
        else:
            first, second = x[..., 0::2], x[..., 1::2]
            turned = torch.stack(
                (first * cosine - second * sine, second * cosine + first * sine), dim=-1
            ).flatten(-2)
        return turned.to(x.dtype)

    def table(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosines and sines f32[positions, head_dim / 2] of every position."""
        cosines, sines = self._table(device).unbind()
        return cosines, sines

    def _table(self, device: torch.device) -> Tensor:
        if device not in self._tables:
            positions = torch.arange(self.settings.positions, dtype=torch.float32)
            radians = torch.outer(positions, frequencies(self.settings))
            self._tables[device] = torch.stack((radians.cos(), radians.sin())).to(device)
        return self._tables[device]


class AxesRope(Rope):
    """Positions of several axes, as those of an image's rows: each pair follows one of them.

    `sections` says how many pairs an axis has. They lie interleaved: pairs 1, 4, 7, … follow the
    second axis and 2, 5, 8, … the third, as many as their sections say; all others the first.
    """

    def __init__(self, settings: RopeSettings, sections: tuple[int, int, int]) -> None:
        super().__init__(settings)
        pairs = settings.head_dim // 2
        self._axes = [0] * pairs
        self._axes_on: dict[torch.device, Tensor] = {}
        for axis in (1, 2):
            for pair in range(axis, min(3 * sections[axis], pairs), 3):
                self._axes[pair] = axis

    def angles_of(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """As `angles`, of `places` i64[R, 3]. Equal numbers on all axes are a plain position."""
        cosines, sines = self.table(places.device)
        axes = self._axes_on.get(places.device)
        if axes is None:
            axes = self._axes_on[places.device] = torch.tensor(self._axes, device=places.device)
        rows = places.index_select(1, axes)
        return cosines.gather(0, rows).unsqueeze(1), sines.gather(0, rows).unsqueeze(1)

"""Planning by the cross-entropy method: draw moves, keep those that lead closest, draw closer.

A move is a step of at most `MOST_STEP` in each direction and a grip; it turns nothing. Mean and
spread of the best moves are mixed with those of the round before.
"""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.layers.counter_hash import fold, normal

MOST_STEP = 0.05
_MOST_GRIP = 0.75
_LEAST_GRIP = 0.25
_KEPT = 0.15
_DRAWS = 2
_NUMBERS = 7


class CrossEntropy(nn.Module):
    """The node: no weights."""

    @classmethod
    def build(cls, config: Mapping[str, Any], *, dtype: torch.dtype, device: torch.device) -> Self:
        return cls()

    def weight_map(self) -> Mapping[str, str]:
        return {}

    def start(self, ctx: OpContext, horizon: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and spread f32[B, H, 7] of the first round; `horizon` i64[B] is H for all."""
        mean = torch.zeros(len(horizon), int(horizon[0]), _NUMBERS, device=horizon.device)
        spread = torch.zeros_like(mean)
        spread[..., :3] = MOST_STEP
        spread[..., 6] = 1.0
        return mean, spread

    def draw(
        self,
        ctx: OpContext,
        mean: Tensor,
        spread: Tensor,
        seed: Tensor,
        number: Tensor,
        samples: Tensor,
    ) -> Tensor:
        """Moves f32[B, K, H, 7] around `mean` f32[B, H, 7] in round `number` i64[B]; `samples`
        i64[B] is K for all."""
        count, horizon = int(samples[0]), mean.shape[1]
        numbers = torch.arange(count * horizon * _NUMBERS, device=mean.device)
        keys = fold(torch.stack((seed, number), dim=-1))
        noise = normal(keys[:, None], _DRAWS, numbers).view(-1, count, horizon, _NUMBERS)
        drawn = noise * spread[:, None] + mean[:, None]
        return bounded(drawn)

    def cost(self, ctx: OpContext, z: Tensor, goal: Tensor) -> Tensor:
        """f32[B, K]: how far `z` f32[B, K, tokens, D] are from `goal` f32[B, tokens, D]."""
        return (z - goal[:, None]).abs().mean(dim=(-2, -1))

    def refit(
        self,
        ctx: OpContext,
        a: Tensor,
        c: Tensor,
        mean: Tensor,
        spread: Tensor,
        elites: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and spread of the next round, and the plan so far, each f32[B, H, 7].

        `a` f32[B, K, H, 7] are this round's moves and `c` f32[B, K] their costs; `elites` i64[B]
        says how many of them count.
        """
        fitted = [
            _fitted(moves, costs, count)
            for moves, costs, count in zip(a, c, elites.tolist(), strict=True)
        ]
        best_mean, best_spread = (torch.stack(part) for part in zip(*fitted, strict=True))
        mean = best_mean * (1.0 - _KEPT) + mean * _KEPT
        spread = best_spread * (1.0 - _KEPT) + spread * _KEPT
        plan = mean.clone()
        grip = plan[..., 6]
        plan[..., 6] = torch.where(grip.abs() < _LEAST_GRIP, torch.zeros_like(grip), grip)
        return mean, spread, plan


def bounded(moves: Tensor) -> Tensor:
    """Moves [..., 7] of at most the greatest step and grip, that turn nothing."""
    step = moves[..., :3].clamp(-MOST_STEP, MOST_STEP)
    grip = moves[..., 6:].clamp(-_MOST_GRIP, _MOST_GRIP)
    return torch.cat((step, torch.zeros_like(step), grip), dim=-1)


def _fitted(moves: Tensor, costs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean and spread [H, 7] of the `count` cheapest of `moves` [K, H, 7]."""
    best = moves.index_select(0, costs.topk(count, largest=False).indices)
    spread = best.std(dim=0) if count > 1 else torch.zeros_like(best[0])
    return best.mean(dim=0), spread

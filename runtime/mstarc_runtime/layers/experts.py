"""A mixture of experts: a router chooses a few of many feed-forward blocks for each row.

`Router`: rows → the chosen experts and what each counts for. `Experts`: rows and the choice → the
weighted sum of what the chosen blocks make. All blocks lie in two matrices, one behind the other.

On a CPU the weights that a row has chosen are gathered, a product a row and expert: what comes out
of a row depends on that row alone, as the other layers promise. On a GPU the rows are sorted by
expert and each block is run once over its rows, in shapes that the number of rows fixes, so that a
graph may hold it.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.shard import WHOLE, Portion, Shard, rows_of

# Numbers of gathered weights at a time.
_GATHERED = 1 << 24


class Router(nn.Module):
    """`weight` [experts, width]; rows [R, width] → shares [R, chosen] and experts i64[R, chosen].

    Shares are probabilities among all experts, or among the chosen ones if `normed`.
    """

    def __init__(
        self,
        width: int,
        *,
        experts: int,
        chosen: int,
        normed: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.chosen = chosen
        self.normed = normed
        self.weight = nn.Parameter(
            torch.empty(experts, width, dtype=dtype, device=device), requires_grad=False
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = functional.linear(x, self.weight)
        shares, experts = logits.softmax(-1, dtype=torch.float32).topk(self.chosen, dim=-1)
        if self.normed:
            shares = shares / shares.sum(-1, keepdim=True)
        return shares.to(x.dtype), experts

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return cast(tuple[Tensor, Tensor], super().__call__(x))


class Experts(nn.Module):
    """Gated blocks `down(silu(gate(x)) * up(x))`, or one part of the inside of each.

    `gate_up` is [experts * 2 * inner, width], each expert's gate before its up; `down` is
    [experts * width, inner].
    """

    def __init__(
        self,
        width: int,
        inner: int,
        *,
        experts: int,
        shard: Shard = WHOLE,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.experts = experts
        self._shard = shard
        held = shard.part(inner)
        part = held[1] - held[0]
        self.gate_up = nn.Parameter(
            torch.empty(experts * 2 * part, width, dtype=dtype, device=device),
            requires_grad=False,
        )
        self.down = nn.Parameter(
            torch.empty(experts * width, part, dtype=dtype, device=device), requires_grad=False
        )
        self.portions: dict[str, Portion] = {}
        if part < inner:
            total, ranges = rows_of([(inner, held)] * (2 * experts))
            self.portions["gate_up"] = Portion(whole=(total, width), dim=0, ranges=ranges)
            self.portions["down"] = Portion(whole=(experts * width, inner), dim=1, ranges=(held,))

    def forward(self, x: Tensor, shares: Tensor, experts: Tensor) -> Tensor:
        """Rows [R, width], shares [R, K] and experts i64[R, K] → [R, width]."""
        gate_up = self.gate_up.view(self.experts, -1, x.shape[-1])
        down = self.down.view(self.experts, x.shape[-1], -1)
        run = _row_by_row if x.device.type == "cpu" else _by_expert
        return self._shard.sum(run(x, shares, experts, gate_up, down))

    def __call__(self, x: Tensor, shares: Tensor, experts: Tensor) -> Tensor:
        return cast(Tensor, super().__call__(x, shares, experts))


def _row_by_row(
    x: Tensor, shares: Tensor, experts: Tensor, gate_up: Tensor, down: Tensor
) -> Tensor:
    chosen = experts.shape[1]
    at_once = max(1, _GATHERED // (chosen * gate_up[0].numel()))
    made = [
        _gathered(rows, share, choice, gate_up, down)
        for rows, share, choice in zip(
            x.split(at_once), shares.split(at_once), experts.split(at_once), strict=True
        )
    ]
    return torch.cat(made) if len(made) > 1 else made[0]


def _gathered(x: Tensor, shares: Tensor, experts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    flat = experts.flatten()
    rows = x.repeat_interleave(experts.shape[1], 0).unsqueeze(2)
    gate, up = torch.bmm(gate_up.index_select(0, flat), rows).chunk(2, dim=1)
    made = torch.bmm(down.index_select(0, flat), functional.silu(gate) * up)
    return (made.view(*experts.shape, -1) * shares.unsqueeze(2)).sum(1)


def _by_expert(x: Tensor, shares: Tensor, experts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    flat = experts.flatten()
    order = flat.argsort(stable=True)
    numbers = torch.arange(gate_up.shape[0], device=x.device)
    ends = (flat[:, None] == numbers).sum(0).cumsum(0).to(torch.int32)
    rows = x.index_select(0, order // experts.shape[1])
    gate, up = functional.grouped_mm(rows, gate_up.transpose(1, 2), offs=ends).chunk(2, dim=-1)
    made = functional.grouped_mm(functional.silu(gate) * up, down.transpose(1, 2), offs=ends)
    placed = torch.empty_like(made).index_copy_(0, order, made)
    return (placed.view(*experts.shape, -1) * shares.unsqueeze(2)).sum(1)

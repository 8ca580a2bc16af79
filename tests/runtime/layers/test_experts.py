"""A mixture of experts is the weighted sum of its chosen blocks, whole or in parts."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.layers.experts import Experts, Router
from mstarc_runtime.layers.shard import Shard
from mstarc_runtime.weights.random import randomise
from tests.runtime.layers.test_determinism import assert_rows_are_alone

CPU = torch.device("cpu")
WIDTH, INNER, COUNT, CHOSEN = 24, 16, 6, 2


def experts(shard: Shard | None = None) -> Experts:
    made = Experts(
        WIDTH, INNER, experts=COUNT, shard=shard or Shard(), dtype=torch.float32, device=CPU
    )
    randomise(made, seed=3)
    return made


def router(*, normed: bool) -> Router:
    made = Router(
        WIDTH, experts=COUNT, chosen=CHOSEN, normed=normed, dtype=torch.float32, device=CPU
    )
    randomise(made, seed=4)
    return made


def one_by_one(layer: Experts, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
    gate_up = layer.gate_up.view(COUNT, 2, INNER, WIDTH)
    down = layer.down.view(COUNT, WIDTH, INNER)
    rows = []
    for row, row_shares, row_chosen in zip(x, shares, chosen, strict=True):
        made = torch.zeros(WIDTH)
        for share, number in zip(row_shares, row_chosen.tolist(), strict=True):
            gate, up = gate_up[number] @ row
            made += share * (down[number] @ (functional.silu(gate) * up))
        rows.append(made)
    return torch.stack(rows)


@pytest.mark.parametrize("normed", [False, True])
@torch.inference_mode()
def test_rows_are_sums_of_their_experts(normed: bool) -> None:
    x = torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(1))
    shares, chosen = router(normed=normed)(x)
    assert chosen.shape == shares.shape == (9, CHOSEN)
    assert bool(normed) == bool(torch.allclose(shares.sum(1), torch.ones(9)))
    layer = experts()
    made = layer(x, shares, chosen)
    torch.testing.assert_close(made, one_by_one(layer, x, shares, chosen))


@torch.inference_mode()
def test_parts_add_up_to_the_whole() -> None:
    x = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(2))
    shares, chosen = router(normed=True)(x)
    whole = experts()(x, shares, chosen)
    parts = [experts(Shard(index=n, count=2))(x, shares, chosen) for n in range(2)]
    torch.testing.assert_close(parts[0] + parts[1], whole)


@torch.inference_mode()
def test_a_row_is_alone() -> None:
    layer, choose = experts(), router(normed=True)
    assert_rows_are_alone(lambda x: layer(x, *choose(x)), WIDTH)

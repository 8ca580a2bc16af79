"""One row's experts are those that several rows' kernels would take, ties included."""

from typing import Any

import pytest
import torch

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WIDTH, INNER, EXPERTS, CHOSEN = 128, 64, 16, 5


def weights_of(*, pieces: int, is_normed: bool) -> Any:
    """Experts 3 to 6 and 9 are scored alike."""
    from mstarc_runtime.kernels.mixture import ExpertWeights

    generator = torch.Generator(DEVICE).manual_seed(pieces)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        made = torch.randn(rows, columns, generator=generator, device=DEVICE)
        return (made * columns**-0.5).bfloat16()

    router = matrix(EXPERTS, WIDTH)
    router[[4, 5, 6, 9]] = router[3].clone()
    shared: dict[str, torch.Tensor] = {}
    if pieces:
        shared = {
            "shared_gate": matrix(1, WIDTH),
            "shared_gate_up": matrix(2 * pieces * INNER, WIDTH),
            "shared_down": matrix(WIDTH, pieces * INNER),
        }
    return ExpertWeights(
        router=router,
        gate_up=matrix(EXPERTS * 2 * INNER, WIDTH),
        down=matrix(EXPERTS * WIDTH, INNER),
        chosen=CHOSEN,
        normed=is_normed,
        **shared,
    )


def chosen(weights: Any, x: torch.Tensor, cuts: Any) -> tuple[torch.Tensor, ...]:
    """(ids, shares, squares of what came out) of rows `x` f32[B, W]."""
    from mstarc_runtime.kernels.mixture import Mixture

    batch = x.shape[0]
    mixture = Mixture(weights, batch=batch, chained=DEVICE.type == "cuda", cuts=cuts)
    squares_out = torch.zeros(mixture.tiles, batch, device=DEVICE)
    mixture(
        x.bfloat16(),
        squares=x.square().sum(-1)[None],
        residual=x.clone(),
        gain=torch.ones(WIDTH, device=DEVICE).bfloat16(),
        squares_out=squares_out,
        eps=1e-6,
    )
    return mixture.scratch.ids[0], mixture.scratch.shares[0], squares_out.sum(0)[0]


@pytest.mark.parametrize(("pieces", "is_normed"), [(0, True), (2, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_it_takes_what_several_rows_take(pieces: int, is_normed: bool, sign: int) -> None:
    from mstarc_runtime.kernels.mixture import Cut, Cuts, cuts_of

    weights = weights_of(pieces=pieces, is_normed=is_normed)
    # The row is like the alike experts, so that they are the best, or as little as can be.
    x = sign * weights.router[3].float()[None] * WIDTH**0.5
    large = Cut(rows=32, columns=64, warps=2)
    cuts = Cuts(choose=Cut(rows=1, columns=64, warps=1), enter=large, leave=large)
    ids, shares, squares = chosen(weights, x, cuts)
    several = chosen(weights, x.repeat(8, 1), cuts_of(weights, batch=8))
    assert torch.equal(ids, several[0])
    assert torch.allclose(shares, several[1], rtol=1e-4)
    assert torch.allclose(squares, several[2], rtol=1e-2)
    if sign > 0:
        assert ids[:5].tolist() == [3, 4, 5, 6, 9]
    assert ids[CHOSEN:].tolist() == list(range(EXPERTS, EXPERTS + pieces))

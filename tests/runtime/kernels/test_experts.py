"""A few rows through the experts that they chose, by our kernels: near plain torch, and a row's
numbers depend on its bucket alone."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-6


def weights_of(*, width: int, inner: int, experts: int, chosen: int, pieces: int) -> Any:
    from mstarc_runtime.kernels.mixture import ExpertWeights

    generator = torch.Generator(DEVICE).manual_seed(width + pieces)

    def matrix(rows: int, columns: int) -> Tensor:
        made = torch.randn(rows, columns, generator=generator, device=DEVICE)
        return (made * columns**-0.5).bfloat16()

    shared: dict[str, Tensor] = {}
    if pieces:
        shared = {
            "shared_gate": matrix(1, width),
            "shared_gate_up": matrix(2 * pieces * inner, width),
            "shared_down": matrix(width, pieces * inner),
        }
    return ExpertWeights(
        router=matrix(experts, width),
        gate_up=matrix(experts * 2 * inner, width),
        down=matrix(experts * width, inner),
        chosen=chosen,
        normed=True,
        **shared,
    )


def plain(weights: Any, x: Tensor, gain: Tensor) -> Tensor:
    """What the experts add to rows `x` f32[B, W], in float32."""
    rows = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * gain.float()
    shares, ids = (rows @ weights.router.float().T).softmax(-1).topk(weights.chosen, -1)
    shares = shares / shares.sum(-1, keepdim=True)
    gate_up = weights.gate_up.float().view(weights.experts, -1, weights.width)
    down = weights.down.float().view(weights.experts, weights.width, -1)
    added = torch.zeros_like(rows)
    for row in range(rows.shape[0]):
        for share, expert in zip(shares[row], ids[row].tolist(), strict=True):
            gate, up = (gate_up[expert] @ rows[row]).chunk(2)
            added[row] += share * (down[expert] @ (functional.silu(gate) * up))
    if weights.shared_gate is not None:
        gate, up = (rows @ weights.shared_gate_up.float().T).chunk(2, -1)
        made = (functional.silu(gate) * up) @ weights.shared_down.float().T
        added += torch.sigmoid(rows @ weights.shared_gate.float().T) * made
    return added


def through_kernels(weights: Any, x: Tensor, gain: Tensor, mixture: Any) -> tuple[Tensor, ...]:
    """(added, what comes behind, its sum of squares) of rows in a bucket as large as they are."""
    batch, width = x.shape
    residual = x.clone()
    h = (x * gain.float()).bfloat16()
    squares = x.square().view(batch, 2, -1).sum(-1).T.contiguous()
    squares_out = torch.zeros(mixture.tiles, batch, device=DEVICE)
    next_gain = torch.full((width,), 0.5, device=DEVICE).bfloat16()
    for _ in range(2):  # counters are back at zero
        residual.copy_(x)
        h.copy_((x * gain.float()).bfloat16())
        mixture(
            h,
            squares=squares,
            residual=residual,
            gain=next_gain,
            squares_out=squares_out,
            eps=EPS,
        )
    return residual - x, h, squares_out.sum(0)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 20])
@pytest.mark.parametrize("pieces", [0, 2])
def test_rows_are_those_of_plain_torch(batch: int, pieces: int) -> None:
    from mstarc_runtime.kernels.mixture import Mixture

    weights = weights_of(width=256, inner=192, experts=16, chosen=3, pieces=pieces)
    generator = torch.Generator(DEVICE).manual_seed(batch)
    x = torch.randn(batch, 256, generator=generator, device=DEVICE)
    gain = (1 + 0.1 * torch.randn(256, generator=generator, device=DEVICE)).bfloat16()
    wanted = plain(weights, x, gain)
    mixture = Mixture(weights, batch=batch, chained=DEVICE.type == "cuda")
    added, h, squares = through_kernels(weights, x, gain, mixture)
    assert (added - wanted).norm() / wanted.norm() < 2e-2
    assert torch.allclose(squares, (x + added).square().sum(-1), rtol=1e-4)
    assert torch.allclose(h.float(), (x + added) * 0.5, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("batch", [2, 4, 6])
def test_a_row_depends_on_its_bucket_only(batch: int) -> None:
    from mstarc_runtime.kernels.mixture import Mixture

    weights = weights_of(width=256, inner=64, experts=16, chosen=2, pieces=2)
    generator = torch.Generator(DEVICE).manual_seed(3)
    x = torch.randn(batch, 256, generator=generator, device=DEVICE)
    gain = torch.ones(256, device=DEVICE).bfloat16()
    mixture = Mixture(weights, batch=batch, chained=DEVICE.type == "cuda")
    together, _, _ = through_kernels(weights, x, gain, mixture)
    alone = torch.zeros_like(x)
    alone[0] = x[1]
    apart, _, _ = through_kernels(weights, alone, gain, mixture)
    assert torch.equal(apart[0], together[1])

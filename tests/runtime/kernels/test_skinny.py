"""A weight matrix times a few rows says what plain arithmetic says, at every cut and kind."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytestmark = pytest.mark.gpu

INNER = 256


def relative(made: Tensor, wanted: Tensor) -> float:
    return float((made.float() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("kind", ["PROJECT", "GATE", "RESIDUAL", "LOGITS"])
@pytest.mark.parametrize("is_normed", [False, True])
@pytest.mark.parametrize(
    ("batch", "outer", "rows", "columns", "split"),
    [(1, 100, 8, 64, 1), (1, 96, 2, 128, 1), (3, 100, 32, 32, 2), (16, 64, 64, 64, 4)],
)
def test_products(
    kind: str, is_normed: bool, batch: int, outer: int, rows: int, columns: int, split: int
) -> None:
    from mstarc_runtime.kernels import skinny

    generator = torch.Generator("cuda").manual_seed(batch * outer)

    def normal(*dims: int) -> Tensor:
        return torch.randn(*dims, generator=generator, device="cuda")

    weight, h = (normal(outer, INNER) * 0.05).bfloat16(), normal(batch, INNER).bfloat16()
    count = outer // 2 if kind == "GATE" else outer
    product = skinny.Product(
        weight,
        kind=getattr(skinny, kind),
        batch=batch,
        shape=skinny.Shape(rows=rows, columns=columns, warps=4, split=split, stages=2),
        chained=True,
    )
    # Poisoned, so that what is not written shows.
    out = torch.full((batch, count), float("nan"), device="cuda")
    out = out if kind == "LOGITS" else out.bfloat16()
    residual, gain = normal(batch, count), normal(count).bfloat16()
    parts = torch.full((product.tiles, batch), float("nan"), device="cuda")
    squares = normal(5, batch).square() * INNER if is_normed else None
    wanted = h.float() @ weight.float().T
    if squares is not None:
        wanted = wanted * torch.rsqrt(squares.sum(0) / INNER + 1e-5)[:, None]
    if kind == "GATE":
        wanted = functional.silu(wanted[:, :count]) * wanted[:, count:]
    if kind == "RESIDUAL":
        wanted = residual + wanted
    product(h, out, squares=squares, residual=residual, gain=gain, squares_out=parts, eps=1e-5)
    if kind == "RESIDUAL":
        assert relative(residual, wanted) < 1e-6
        assert relative(parts.sum(0), wanted.square().sum(1)) < 1e-6
        wanted = wanted * gain.float()
    assert relative(out, wanted) < (1e-6 if kind == "LOGITS" else 4e-3)
    assert not product.arrived.any(), "the counters are ready for the next step"

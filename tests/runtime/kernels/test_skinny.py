"""A weight matrix times a few rows says what plain arithmetic says, at every cut and kind."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytestmark = pytest.mark.gpu

INNER = 256
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Interpreted, numbers become bf16 by cutting them off.
ROUNDING = 4e-3 if DEVICE.type == "cuda" else 8e-3


def relative(made: Tensor, wanted: Tensor) -> float:
    return float((made.float() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("kind", ["PROJECT", "GATE", "RESIDUAL", "LOGITS"])
@pytest.mark.parametrize("is_normed", [False, True])
@pytest.mark.parametrize(
    ("batch", "outer", "cut"),
    [
        (1, 100, {"rows": 8, "columns": 64}),
        (1, 96, {"rows": 2, "columns": 128}),
        (2, 100, {"rows": 8, "columns": 64, "held": 1}),
        (3, 96, {"rows": 16, "columns": 64, "held": 2}),
        (4, 100, {"rows": 8, "columns": 128, "held": 2}),
        (4, 36, {"rows": 1, "columns": 128, "held": 1}),
        (4, 100, {"rows": 16, "columns": 32, "held": 2, "spread": True}),
        (6, 96, {"rows": 16, "columns": 64, "held": 1, "spread": True}),
        (16, 64, {"rows": 32, "columns": 32, "held": 1, "spread": True}),
        (3, 100, {"rows": 32, "columns": 32, "split": 2}),
        (16, 64, {"rows": 64, "columns": 64, "split": 4}),
    ],
)
def test_products(kind: str, is_normed: bool, batch: int, outer: int, cut: dict[str, Any]) -> None:
    from mstarc_runtime.kernels import kinds, skinny

    generator = torch.Generator(DEVICE).manual_seed(batch * outer)

    def normal(*dims: int) -> Tensor:
        return torch.randn(*dims, generator=generator, device=DEVICE)

    weight, h = (normal(outer, INNER) * 0.05).bfloat16(), normal(batch, INNER).bfloat16()
    count = outer // 2 if kind == "GATE" else outer
    product = skinny.Product(
        weight,
        kind=getattr(kinds, kind),
        batch=batch,
        shape=skinny.Shape(warps=4, stages=2, **cut),
        chained=DEVICE.type == "cuda",
    )
    # Poisoned, so that what is not written shows.
    out = torch.full((batch, count), float("nan"), device=DEVICE)
    out = out if kind == "LOGITS" else out.bfloat16()
    residual, gain = normal(batch, count), normal(count).bfloat16()
    parts = torch.full((product.tiles, batch), float("nan"), device=DEVICE)
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
    assert relative(out, wanted) < (1e-6 if kind == "LOGITS" else ROUNDING)
    assert not product.arrived.any(), "the counters are ready for the next step"


@pytest.mark.parametrize("batch", [2, 4])
def test_a_row_depends_on_its_bucket_only(batch: int) -> None:
    from mstarc_runtime.kernels import kinds, skinny

    generator = torch.Generator(DEVICE).manual_seed(batch)
    weight = torch.randn(24, INNER, generator=generator, device=DEVICE).bfloat16()
    h = torch.randn(batch, INNER, generator=generator, device=DEVICE).bfloat16()
    product = skinny.Product(
        weight,
        kind=kinds.LOGITS,
        batch=batch,
        shape=skinny.Shape(rows=4, columns=64, warps=1, held=2),
        chained=DEVICE.type == "cuda",
    )
    together, apart = (torch.empty(batch, 24, device=DEVICE) for _ in range(2))
    product(h, together)
    others = torch.zeros_like(h)
    others[0] = h[1]
    product(others, apart)
    assert torch.equal(together[1], apart[0])

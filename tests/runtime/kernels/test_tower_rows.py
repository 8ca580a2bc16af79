"""Between the products of a tower of float32: what plain torch says, and parts that add up."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-6


def _sum_of_parts(rows: Tensor) -> Tensor:
    """The numbers of split rows: their three parts stand first."""
    parts = rows[:, :-16].float().unflatten(1, (6, -1))
    assert rows[:, -16:].float().tolist() == [[1.0] * 3 + [0.0] * 13] * len(rows)
    assert torch.equal(parts[:, 2], parts[:, 4]) and torch.equal(parts[:, 1], parts[:, 3])
    return parts[:, 0] + parts[:, 1] + parts[:, 2]


@pytest.mark.parametrize("split", [False, True])
def test_rows_are_made_ready(split: bool) -> None:
    from mstarc_runtime.kernels import tower_rows

    torch.manual_seed(0)
    x, more = (torch.randn(8, 24, device=DEVICE) for _ in range(2))
    weight, bias = (torch.randn(24, device=DEVICE) for _ in range(2))
    total, normed = tower_rows.added_normed(x, more, weight, bias, eps=EPS, split=split)
    assert torch.equal(total, x + more)
    read = _sum_of_parts if split else torch.clone
    wanted = functional.layer_norm(x + more, (24,), weight, bias, EPS)
    torch.testing.assert_close(read(normed), wanted, atol=2e-6, rtol=2e-6)
    gate = tower_rows.gelu(x, split=split)
    torch.testing.assert_close(
        read(gate), functional.gelu(x, approximate="tanh"), atol=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize(("split", "width"), [(False, 12), (False, 32), (False, 72), (True, 24)])
def test_rows_of_an_image_see_one_another(split: bool, width: int) -> None:
    from mstarc_runtime.kernels import tower_rows

    torch.manual_seed(1)
    images, heads, rows = 2, 2, 70
    qkv = torch.randn(images * rows, 3 * heads * width, device=DEVICE)
    q, k, v = (
        part.view(images, rows, heads, width).transpose(1, 2).double() for part in qkv.chunk(3, -1)
    )
    wanted = (
        functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).flatten(0, 1)
    )
    found = tower_rows.attend(qkv, images=images, heads=heads, split=split)
    read = _sum_of_parts(found) if split else found
    error = float((read - wanted).norm() / wanted.norm())
    assert error < (2e-6 if split else 2e-3)


def test_six_products_are_one_of_float32() -> None:
    from mstarc_runtime.kernels import tower_rows

    if DEVICE.type != "cuda":
        pytest.skip("a CPU has no product of bfloat16 that gives float32")
    torch.manual_seed(2)
    x, weight = torch.randn(64, 512, device=DEVICE), torch.randn(48, 512, device=DEVICE)
    bias = torch.randn(48, device=DEVICE)
    wanted = functional.linear(
        functional.gelu(x.double(), approximate="tanh"), weight.double(), bias.double()
    )
    rows, matrix = tower_rows.gelu(x, split=True), tower_rows.split_matrix(weight, bias)
    found = tower_rows.split_product(rows, matrix)
    assert float((found - wanted).norm() / wanted.norm()) < 2e-6

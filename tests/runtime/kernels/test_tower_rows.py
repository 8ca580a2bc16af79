"""Between the products of a tower of float32: what plain torch says, and parts that add up."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-6
# Products, the scale of rows, and how far numbers of one part may be from what they were.
SPLITS = [(0, 1.0, 0.0), (1, 8.0, 5e-4), (3, 8.0, 5e-7), (6, 1.0, 0.0)]


def _sum_of_parts(rows: Tensor, parts: int, scale: float) -> Tensor:
    """The numbers of rows as they were before they were split."""
    if not parts:
        return rows
    ones = 3 if parts == 6 else 2
    assert rows[:, -16:].float().tolist() == [[scale] * ones + [0.0] * (16 - ones)] * len(rows)
    pieces = rows[:, :-16].float().unflatten(1, (parts, -1))
    if parts == 6:
        assert torch.equal(pieces[:, 2], pieces[:, 4])
        assert torch.equal(pieces[:, 1], pieces[:, 3])
    return pieces[:, : (parts + 1) // 2].sum(1) / scale


@pytest.mark.parametrize(("parts", "scale", "error"), SPLITS)
def test_rows_are_made_ready(parts: int, scale: float, error: float) -> None:
    from mstarc_runtime.kernels.tower_rows import Split, added_normed, gelu

    torch.manual_seed(0)
    x, more = (torch.randn(8, 24, device=DEVICE) for _ in range(2))
    weight, bias = (torch.randn(24, device=DEVICE) for _ in range(2))
    split = Split(parts=parts, scale=scale)
    total, normed = added_normed(x, more, weight, bias, eps=EPS, unit=0.5, split=split)
    assert torch.equal(total, x + 0.5 * more)
    wanted = functional.layer_norm(x + 0.5 * more, (24,), weight, bias, EPS)
    close = {"atol": 2e-6 + error, "rtol": 2e-6 + error}
    torch.testing.assert_close(_sum_of_parts(normed, parts, scale), wanted, **close)
    gate = _sum_of_parts(gelu(x, unit=0.5, split=split), parts, scale)
    torch.testing.assert_close(gate, functional.gelu(0.5 * x, approximate="tanh"), **close)


@pytest.mark.parametrize(
    ("parts", "scale", "width"),
    [(0, 1.0, 12), (0, 1.0, 32), (0, 1.0, 72), (1, 8.0, 72), (3, 8.0, 24), (6, 1.0, 72)],
)
def test_rows_of_an_image_see_one_another(parts: int, scale: float, width: int) -> None:
    from mstarc_runtime.kernels.tower_attention import attend
    from mstarc_runtime.kernels.tower_rows import Split

    torch.manual_seed(1)
    images, heads, rows = 2, 2, 70
    qkv = torch.randn(images * rows, 3 * heads * width, device=DEVICE)
    q, k, v = (
        part.view(images, rows, heads, width).transpose(1, 2).double() for part in qkv.chunk(3, -1)
    )
    wanted = (
        functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).flatten(0, 1)
    )
    split = Split(parts=parts, scale=scale)
    found = attend(qkv * 4, images=images, heads=heads, unit=0.25, split=split)
    error = float((_sum_of_parts(found, parts, scale) - wanted).norm() / wanted.norm())
    assert error < (2e-6 if parts in (3, 6) else 2e-3)
    if not parts:
        bias = torch.randn(3 * heads * width, device=DEVICE)
        found = attend(qkv - bias, images=images, heads=heads, bias=bias)
        # Numbers without their bias are greater here than with it, and so is what TF32 leaves out.
        assert float((found - wanted).norm() / wanted.norm()) < 6e-3


@pytest.mark.parametrize(("parts", "most"), [(1, 1e-3), (3, 2e-6), (6, 2e-6)])
def test_products_of_parts_are_one_of_float32(parts: int, most: float) -> None:
    from mstarc_runtime.kernels.tower_rows import Split, gelu, split_matrix, split_product

    if DEVICE.type != "cuda":
        pytest.skip("a CPU has no product of bfloat16 that gives float32")
    torch.manual_seed(2)
    x, weight = torch.randn(64, 512, device=DEVICE), torch.randn(48, 512, device=DEVICE)
    bias = torch.randn(48, device=DEVICE)
    wanted = functional.linear(
        functional.gelu(x.double(), approximate="tanh"), weight.double(), bias.double()
    )
    split = Split(parts=parts, scale=1.0 if parts == 6 else 256.0)
    matrix = split_matrix(weight, bias, parts)
    rows = gelu(x, split=split)
    found = split_product(rows, matrix.values, parts) / (split.scale * matrix.scale)
    assert float((found - wanted).norm() / wanted.norm()) < most


@pytest.mark.parametrize(("parts", "most"), [(0, 3e-3), (1, 3e-3), (3, 3e-6), (6, 3e-6)])
def test_layers_give_what_plain_torch_gives(
    parts: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Norms, weights and rows of very different sizes: nothing leaves the range of float16."""
    from mstarc_runtime.models.pi05 import tower_passes

    if DEVICE.type != "cuda":
        monkeypatch.setattr(tower_passes, "split_product", _in_float32)
    torch.manual_seed(3)
    width, inner, heads = 32, 48, 2
    layers = [
        SimpleNamespace(
            heads=heads,
            norm1=_norm(width, 300.0),
            qkv=_linear(width, 3 * width, 1e-3),
            out=_linear(width, width, 20.0),
            norm2=_norm(width, 1e-4),
            fc1=_linear(width, inner, 1e4),
            fc2=_linear(inner, width, 1.0),
        )
        for _ in range(2)
    ]
    norm, project = _norm(width, 1.0), _linear(width, 8, 1.0)
    x = torch.randn(2, 20, width, device=DEVICE)
    found = tower_passes.TowerPasses(layers, norm, project, parts=parts)(x)
    wanted = x.double()
    for layer in layers:
        wanted = _layer(wanted, layer)
    wanted = _linear_of(functional.layer_norm(wanted, (width,), *_of(norm), EPS), project)
    assert float((found - wanted).norm() / wanted.norm()) < most


def _in_float32(rows: Tensor, matrix: Tensor, parts: int) -> Tensor:
    return rows.float() @ matrix.float().T


def _norm(width: int, size: float) -> nn.LayerNorm:
    norm = nn.LayerNorm(width, eps=EPS, device=DEVICE).requires_grad_(False)
    norm.weight.copy_(torch.randn(width) * size)
    norm.bias.copy_(torch.randn(width) * size)
    return norm


def _linear(inner: int, width: int, size: float) -> nn.Linear:
    from mstarc_runtime.layers.linear import Linear

    linear = Linear(inner, width, bias=True, dtype=torch.float32, device=DEVICE)
    linear.weight.copy_(torch.randn(width, inner) * size * inner**-0.5)
    assert linear.bias is not None
    linear.bias.copy_(torch.randn(width) * size)
    return linear


def _of(norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return norm.weight.double(), norm.bias.double()


def _linear_of(x: Tensor, linear: nn.Linear) -> Tensor:
    return functional.linear(x, linear.weight.double(), linear.bias.double())


def _layer(x: Tensor, layer: SimpleNamespace) -> Tensor:
    width = x.shape[-1]
    normed = functional.layer_norm(x, (width,), *_of(layer.norm1), EPS)
    q, k, v = (
        part.unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for part in _linear_of(normed, layer.qkv).chunk(3, -1)
    )
    seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    x = x + _linear_of(seen, layer.out)
    normed = functional.layer_norm(x, (width,), *_of(layer.norm2), EPS)
    gate = functional.gelu(_linear_of(normed, layer.fc1), approximate="tanh")
    return x + _linear_of(gate, layer.fc2)

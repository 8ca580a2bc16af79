"""At a fixed number of rows, a row's bits depend on its own input only.

This is what makes a request's bytes the same alone and in any batch on a CPU: one-row ops run at
one number of rows, whoever is in them. It is a property of the libraries beneath torch, not of
their documentation, so it is checked here for the shapes of the models that are shipped.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.layers.norm import RMSNorm
from mstarc_runtime.layers.rope import Rope, RopeSettings

ROWS = 8
CPU = torch.device("cpu")
# (in, out): fused qkv, output, gate and up, down, head.
MATRICES = {
    "smollm2-135m": ((576, 960), (576, 576), (576, 3072), (1536, 576), (576, 49152)),
    "whisper-base": ((512, 512), (512, 2048), (2048, 512), (512, 51865)),
    "tiny": ((64, 128), (64, 64), (64, 256), (128, 64), (64, 576)),
    "odd": ((33, 77), (48, 100)),
}
LARGE = 20_000
"""Heads have no bias, and take a second to fill."""


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def assert_rows_are_alone(compute: Callable[[Tensor], Tensor], *shape: int) -> None:
    """`compute` on [ROWS, *shape] gives every row the same bits wherever and beside whom it is."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(ROWS, *shape, generator=generator)
    expected = compute(inputs)
    others = torch.randn(ROWS, *shape, generator=generator)
    for source, place in ((0, 0), (0, ROWS - 1), (3, 4), (ROWS - 1, 1)):
        for beside in (others, torch.zeros_like(others), torch.full_like(others, float("nan"))):
            batch = beside.clone()
            batch[place] = inputs[source]
            assert torch.equal(compute(batch)[place], expected[source])


@pytest.mark.parametrize("model", list(MATRICES))
@torch.inference_mode()
def test_a_matrix_product(model: str) -> None:
    for inner, outer in MATRICES[model]:
        for bias in (False, True) if outer < LARGE else (False,):
            layer = Linear(inner, outer, bias=bias, dtype=torch.float32, device=CPU)
            for parameter in layer.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(2))
            plain = layer(torch.ones(3, inner))
            assert_rows_are_alone(layer, inner)
            layer.pack(ROWS)
            assert_rows_are_alone(layer, inner)
            torch.testing.assert_close(layer(torch.ones(3, inner)), plain, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("width", [64, 512, 576, 48])
@torch.inference_mode()
def test_norms(width: int) -> None:
    norm = RMSNorm(width, eps=1e-5, dtype=torch.float32, device=CPU)
    norm.weight.normal_(generator=torch.Generator().manual_seed(2))
    assert_rows_are_alone(norm, width)
    assert_rows_are_alone(lambda x: functional.layer_norm(x, (width,), norm.weight), width)


@pytest.mark.parametrize("width", [128, 1536, 2048, 577])
def test_activations(width: int) -> None:
    assert_rows_are_alone(functional.silu, width)
    assert_rows_are_alone(functional.gelu, width)


@pytest.mark.parametrize("width", [576, 49152, 51865])
def test_what_a_sampler_computes(width: int) -> None:
    assert_rows_are_alone(lambda x: x.softmax(-1), width)
    assert_rows_are_alone(lambda x: x.cumsum(-1), width)
    assert_rows_are_alone(
        lambda x: torch.sort(x.nan_to_num(), dim=-1, descending=True, stable=True)[1], width
    )


@pytest.mark.parametrize("head_dim", [16, 64, 128])
def test_rotary_positions(head_dim: int) -> None:
    rope = Rope(RopeSettings(head_dim=head_dim, theta=1e4, positions=64))
    angles = rope.angles(torch.tensor([5] * ROWS))
    assert_rows_are_alone(lambda x: rope.turn(x, angles), 4, head_dim)

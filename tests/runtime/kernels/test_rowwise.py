"""Residuals with norms and gated activations in one kernel say what plain torch says."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _normal(*dims: int) -> Tensor:
    return torch.randn(*dims, device=DEVICE).bfloat16()


@pytest.mark.parametrize("width", [64, 1000])
@pytest.mark.parametrize("kind", ["rms", "plus", "layer", "timed"])
def test_a_residual_and_its_norm(kind: str, width: int) -> None:
    from mstarc_runtime.kernels.rowwise import LAYER, RMS, TIMED, added_normed

    torch.manual_seed(width)
    x, y = _normal(6, width), _normal(6, width)
    gate, given = None, {}
    if kind == "timed":
        # Three parts side by side, as one product gives them; of two requests of three rows.
        scale, shift, gate = _normal(2, 3 * width).chunk(3, dim=-1)
        given = {"kind": TIMED, "scale": scale, "shift": shift, "gate": gate, "each": 3}
    elif kind == "layer":
        scale, shift = _normal(width), _normal(width)
        given = {"kind": LAYER, "scale": scale, "shift": shift}
    else:
        scale = _normal(width)
        given = {"kind": RMS, "scale": scale, "plus": float(kind == "plus")}
    total, normed = added_normed(x, y, eps=1e-6, **given)
    more = y if gate is None else y * gate.repeat_interleave(3, dim=0)
    assert torch.equal(total, x + more)
    wide = total.float()
    if kind == "layer":
        wanted = functional.layer_norm(wide, (width,), scale.float(), shift.float(), 1e-6)
    else:
        wanted = functional.rms_norm(wide, (width,), eps=1e-6)
        if kind == "timed":
            wanted = wanted * (1 + scale.float().repeat_interleave(3, dim=0))
            wanted = wanted + shift.float().repeat_interleave(3, dim=0)
        else:
            wanted = wanted * (scale.float() + float(kind == "plus"))
    torch.testing.assert_close(normed.float(), wanted, atol=0.03, rtol=0.02)
    alone = {name: value for name, value in given.items() if name != "gate"}
    same, again = added_normed(total, None, eps=1e-6, **alone)
    assert same is total
    assert torch.equal(again, normed)


@pytest.mark.parametrize("tanh", [False, True])
def test_a_gate(tanh: bool) -> None:
    from mstarc_runtime.kernels.rowwise import gated

    joined = _normal(5, 2 * 3000)
    gate, up = joined.chunk(2, dim=-1)
    act = functional.gelu(gate, approximate="tanh") if tanh else functional.silu(gate)
    torch.testing.assert_close(gated(joined, tanh=tanh), act * up, atol=0.02, rtol=0.02)

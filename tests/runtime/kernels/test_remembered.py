"""What a time becomes is what plain torch makes of it, remembered or not."""

import pytest
import torch
from torch.nn import functional

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPE = torch.bfloat16 if torch.cuda.is_available() else torch.float32
CLOSE = {"atol": 2e-2, "rtol": 2e-2} if torch.cuda.is_available() else {"atol": 1e-5, "rtol": 1e-5}
INNER, COUNT = 32, 40


# As many as a block computes in several turns, too.
@pytest.mark.parametrize("count", [COUNT, (1 << 14) + 24])
def test_a_row_of_a_time_is_made_once(count: int) -> None:
    from mstarc_runtime.kernels.remembered import RememberedProduct

    torch.manual_seed(0)
    weight = torch.randn(count, INNER, device=DEVICE).to(DTYPE)
    bias = torch.randn(count, device=DEVICE).to(DTYPE)
    product = RememberedProduct(weight, bias)
    x = torch.randn(3, INNER, device=DEVICE).to(DTYPE)
    x[2] = x[0]
    times = torch.tensor([0.3, 0.7, 0.3], device=DEVICE)
    first = product(times, x)
    wanted = functional.linear(x.float(), weight.float(), bias.float())
    torch.testing.assert_close(first.float(), wanted, **CLOSE)
    # A second time nobody looks at what it has become so far.
    assert torch.equal(product(times.flip(0), torch.zeros_like(x)), first.flip(0))


def test_a_time_is_written_in_waves() -> None:
    from mstarc_runtime.kernels.remembered import RememberedProduct

    torch.manual_seed(1)
    weight = torch.randn(COUNT, INNER, device=DEVICE).to(DTYPE)
    bias = torch.randn(COUNT, device=DEVICE).to(DTYPE)
    turns = torch.linspace(1.0, 1000.0, INNER // 2, dtype=torch.float64, device=DEVICE)
    product = RememberedProduct(weight, bias, silu=True, turns=turns)
    for numbers in ([1.0, 0.9, 0.8], [0.9, 0.0]):
        times = torch.tensor(numbers, device=DEVICE)
        angles = times.double()[:, None] * turns
        row = torch.cat((angles.sin(), angles.cos()), -1).to(DTYPE).float()
        wanted = functional.silu(functional.linear(row, weight.float(), bias.float()))
        torch.testing.assert_close(product(times).float(), wanted, **CLOSE)

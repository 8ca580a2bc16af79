"""A convolution through spectra is the convolution."""

import pytest
import torch
from torch.nn import functional as F

from mstarc_runtime.models.kokoro.blocks import channels_last
from mstarc_runtime.models.kokoro.spectral import SpectralConvolution, pays_off


@pytest.mark.parametrize("taps", [7, 11])
@pytest.mark.parametrize("dilation", [1, 3, 5])
@pytest.mark.parametrize("length", [1, 7, 26, 333])
def test_it_equals_the_direct_one_at_every_length(taps: int, dilation: int, length: int) -> None:
    random = torch.Generator().manual_seed(length)
    weight = torch.randn(6, 4, taps, generator=random)
    bias = torch.randn(6, generator=random)
    signal = torch.randn(1, 4, length, generator=random)
    padding = dilation * (taps - 1) // 2
    expected = F.conv1d(signal, weight, bias, padding=padding, dilation=dilation)
    assert pays_off(weight)
    convolution = SpectralConvolution.of(weight, bias, dilation)
    result = convolution(channels_last(signal))
    assert result.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(result.squeeze(2), expected, rtol=1e-4, atol=1e-4)


def test_short_kernels_and_other_types_stay_direct() -> None:
    assert not pays_off(torch.zeros(2, 2, 3))
    assert not pays_off(torch.zeros(2, 2, 11, dtype=torch.bfloat16))
    assert not pays_off(torch.zeros(2, 2, 11, device="meta"))

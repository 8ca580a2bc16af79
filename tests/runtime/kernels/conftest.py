"""Kernels of our own run on a CUDA device only."""

import pytest
import torch


@pytest.fixture(autouse=True)
def on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")

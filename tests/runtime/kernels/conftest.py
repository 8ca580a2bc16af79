"""Kernels of our own run on a CUDA device only."""

import pytest
import torch


def pytest_runtest_setup() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")

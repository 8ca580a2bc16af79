"""Kernels of our own run on a CUDA device only, or interpreted (`TRITON_INTERPRET=1`)."""

import os

import pytest
import torch


def pytest_runtest_setup() -> None:
    if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("no CUDA device")

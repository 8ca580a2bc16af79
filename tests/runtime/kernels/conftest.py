"""Kernels of our own run on a CUDA device only, or interpreted (`TRITON_INTERPRET=1`)."""

import os
from typing import Any

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def pytest_runtest_setup() -> None:
    if not torch.cuda.is_available() and not INTERPRETED:
        pytest.skip("no CUDA device")


if INTERPRETED:
    import numpy as np
    from triton.runtime import interpreter

    def dot(self: Any, a: Any, b: Any, sums: Any, *_: Any) -> Any:
        """Triton 3.6 takes the bits of bf16 numbers for whole numbers here."""
        left, right = (
            (one.data.astype(np.uint32) << 16).view(np.float32)
            if one.dtype.is_bf16()
            else one.data.astype(np.float32)
            for one in (a, b)
        )
        made = np.matmul(left, right, dtype=sums.data.dtype) + sums.data
        return interpreter.TensorHandle(made, sums.dtype.scalar)

    interpreter.InterpreterBuilder.create_dot = dot

"""Values as frames: what was given comes back, and memory that was lent is not copied."""

import pytest
import torch

from mstarc_runtime.frames import lent_frame, tensor_frame, tensor_of


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64", "bool"])
def test_a_tensor_comes_back(dtype: str) -> None:
    made = torch.arange(24).view(2, 3, 4)
    value = made.to({"f32": torch.float32, "bf16": torch.bfloat16, "bool": torch.bool}.get(dtype))
    for frame in (tensor_frame(value), lent_frame(value), bytes(lent_frame(value))):
        assert len(frame) == value.nbytes
        assert torch.equal(tensor_of(frame, dtype, (2, 3, 4)), value)


def test_memory_that_was_lent_is_the_same() -> None:
    value = torch.zeros(3, 4)
    assert tensor_of(lent_frame(value), "f32", (3, 4)).data_ptr() == value.data_ptr()
    assert tensor_of(tensor_frame(value), "f32", (3, 4)).data_ptr() != value.data_ptr()

"""Rows see all of a context exactly where their mask hides nothing."""

import numpy as np
import pytest

from mstarc_runtime.attention.mask import CAUSAL, FULL, PREFIX, Mask, frames, see_all, visible_rows


@pytest.mark.parametrize("mask", [CAUSAL, FULL, PREFIX, frames(1), frames(3)], ids=str)
@pytest.mark.parametrize("start", [0, 1, 3, 6])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_seeing_all_is_a_mask_that_hides_nothing(mask: Mask, start: int, count: int) -> None:
    indices = np.arange(start, start + count)
    length = start + count
    hides = not visible_rows(indices, length, mask).all()
    assert see_all(indices, np.full_like(indices, length), mask) == (not hides)


def test_one_request_that_does_not_makes_the_call_need_a_mask() -> None:
    indices, lengths = np.array([3, 4, 5, 0, 1, 2, 3]), np.array([6, 6, 6, 4, 4, 4, 4])
    assert see_all(indices[:3], lengths[:3], frames(3))
    assert not see_all(indices, lengths, frames(3))

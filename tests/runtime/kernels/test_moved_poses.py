"""A pose behind a move, by one kernel, is what plain torch says."""

import pytest
import torch

pytestmark = pytest.mark.gpu


def test_poses_are_moved() -> None:
    from mstarc_runtime.kernels.moved_poses import moved_poses
    from mstarc_runtime.models.vjepa2_ac.poses import moved

    if not torch.cuda.is_available():
        pytest.skip("the interpreter knows no arc tangent")
    pose, move = torch.randn(5, 7), torch.randn(5, 7)
    found = moved_poses(pose.cuda(), move.cuda()).cpu()
    torch.testing.assert_close(found, moved(pose, move), atol=1e-6, rtol=1e-6)

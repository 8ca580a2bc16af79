"""Poses of a robot's hand: place, turn and grip, and what a move makes of them.

A turn is three angles, about the fixed axes x, y and z in this order.
"""

import torch
from torch import Tensor


def moved(pose: Tensor, move: Tensor) -> Tensor:
    """The poses f32[B, 7] behind moves f32[B, 7]: places add up, turns follow one another, the grip
    stays in 0 .. 1."""
    if pose.device.type == "cuda" and pose.dtype == move.dtype == torch.float32:
        from mstarc_runtime.kernels.moved_poses import moved_poses

        return moved_poses(pose, move)
    turn = angles(rotation(move[:, 3:6]) @ rotation(pose[:, 3:6])).to(pose.dtype)
    grip = (pose[:, 6:] + move[:, 6:]).clamp(0.0, 1.0)
    return torch.cat((pose[:, :3] + move[:, :3], turn, grip), dim=-1)


def rotation(turn: Tensor) -> Tensor:
    """Matrices f64[B, 3, 3] of angles [B, 3]."""
    (cx, cy, cz), (sx, sy, sz) = turn.double().cos().unbind(-1), turn.double().sin().unbind(-1)
    rows = (
        (cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx),
        (sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx),
        (-sy, cy * sx, cy * cx),
    )
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def angles(matrix: Tensor) -> Tensor:
    """Angles [B, 3] of matrices [B, 3, 3], the middle one in -pi / 2 .. pi / 2."""
    x = torch.atan2(matrix[:, 2, 1], matrix[:, 2, 2])
    y = torch.atan2(-matrix[:, 2, 0], torch.hypot(matrix[:, 2, 1], matrix[:, 2, 2]))
    z = torch.atan2(matrix[:, 1, 0], matrix[:, 0, 0])
    return torch.stack((x, y, z), dim=-1)

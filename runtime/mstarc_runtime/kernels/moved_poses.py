"""Poses behind moves, in one kernel: what `models.vjepa2_ac.poses.moved` says, a pose a program.

Turns are worked out in float64, as there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice


@triton.jit
def _rotation(x, y, z):
    """Nine numbers of the matrix of three angles, row by row."""
    cx, cy, cz = tl.cos(x), tl.cos(y), tl.cos(z)
    sx, sy, sz = tl.sin(x), tl.sin(y), tl.sin(z)
    return (
        cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx,
        sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx,
        -sy, cy * sx, cy * cx,
    )  # fmt: skip


@triton.jit
def _moved(pose, move, out):
    at = tl.program_id(0) * 7
    for number in tl.static_range(3):
        place = tl.load(pose + at + number) + tl.load(move + at + number)
        tl.store(out + at + number, place)
    a0, a1, a2, a3, a4, a5, a6, a7, a8 = _rotation(
        tl.load(move + at + 3).to(tl.float64),
        tl.load(move + at + 4).to(tl.float64),
        tl.load(move + at + 5).to(tl.float64),
    )
    b0, b1, b2, b3, b4, b5, b6, b7, b8 = _rotation(
        tl.load(pose + at + 3).to(tl.float64),
        tl.load(pose + at + 4).to(tl.float64),
        tl.load(pose + at + 5).to(tl.float64),
    )
    # Of the product, the first column and the last row are what angles are read from.
    first = a0 * b0 + a1 * b3 + a2 * b6
    second = a3 * b0 + a4 * b3 + a5 * b6
    third = a6 * b0 + a7 * b3 + a8 * b6
    fourth = a6 * b1 + a7 * b4 + a8 * b7
    fifth = a6 * b2 + a7 * b5 + a8 * b8
    tl.store(out + at + 3, libdevice.atan2(fourth, fifth).to(tl.float32))
    across = tl.sqrt(fourth * fourth + fifth * fifth)
    tl.store(out + at + 4, libdevice.atan2(-third, across).to(tl.float32))
    tl.store(out + at + 5, libdevice.atan2(second, first).to(tl.float32))
    grip = tl.load(pose + at + 6) + tl.load(move + at + 6)
    tl.store(out + at + 6, tl.minimum(tl.maximum(grip, 0.0), 1.0))


def moved_poses(pose: Tensor, move: Tensor) -> Tensor:
    """The poses f32[B, 7] behind moves f32[B, 7]."""
    assert pose.dtype == move.dtype == torch.float32 and pose.shape == move.shape
    out = torch.empty_like(pose, memory_format=torch.contiguous_format)
    _moved[(len(pose),)](pose.contiguous(), move.contiguous(), out, num_warps=1)
    return out

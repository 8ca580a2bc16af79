"""Pictures in: images → blocks of patches.

An image → a size whose sides are whole blocks and whose area is between bounds; frames of that size
→ u8[F, Y, X, block]: what a vision tower reads, and norms where it runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure

Pixels = NDArray[np.uint8]

_SLIMMEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLayout:
    """A block is `merge` x `merge` patches of `patch` x `patch` pixels of `depth` frames. The
    area of a picture is brought between `min_pixels` and `max_pixels`."""

    patch: int
    merge: int
    depth: int
    min_pixels: int
    max_pixels: int

    @property
    def side(self) -> int:
        """Pixels along a block."""
        return self.patch * self.merge


def fitting_size(height: int, width: int, layout: PatchLayout) -> tuple[int, int]:
    """Height and width in whole blocks, close to the given ones and within the bounds.

    Fails with MS9206 for a strip. The proportions stay as near as blocks allow.
    """
    if max(height, width) > _SLIMMEST * min(height, width):
        raise RuntimeFailure(
            "MS9206",
            f"a picture of {width} x {height} pixels is too slim",
            notes=[f"one side may be {_SLIMMEST} times the other"],
        )
    side = layout.side
    high, wide = (round(length / side) * side for length in (height, width))
    if high * wide > layout.max_pixels:
        shrink = math.sqrt(height * width / layout.max_pixels)
        high, wide = (
            max(side, math.floor(length / shrink / side) * side) for length in (height, width)
        )
    elif high * wide < layout.min_pixels:
        grow = math.sqrt(layout.min_pixels / (height * width))
        high, wide = (math.ceil(length * grow / side) * side for length in (height, width))
    return high, wide


def picture_blocks(picture: Any, layout: PatchLayout) -> Tensor:
    """u8[1, Y, X, block] of a picture, which stands in every frame of the depth."""
    pixels = fitted([picture], layout)
    return blocks(np.repeat(pixels, layout.depth, axis=0), layout)


def fitted(pictures: Sequence[Any], layout: PatchLayout) -> Pixels:
    """u8[F, H, W, 3]: pictures of one size, brought to the fitting one."""
    from PIL import Image

    width, height = pictures[0].size
    high, wide = fitting_size(height, width, layout)
    sized = [picture.resize((wide, high), Image.Resampling.BICUBIC) for picture in pictures]
    return np.stack([np.asarray(picture) for picture in sized])


def blocks(frames: Pixels, layout: PatchLayout) -> Tensor:
    """u8[F, H, W, 3] → u8[F / depth, Y, X, block]; a block has its patches line by line, a patch
    its colours, frames, lines and pixels."""
    count, height, width, _ = frames.shape
    patch, merge, depth = layout.patch, layout.merge, layout.depth
    parts = torch.from_numpy(frames).view(
        *(count // depth, depth),
        *(height // layout.side, merge, patch),
        *(width // layout.side, merge, patch, 3),
    )
    ordered = parts.permute(0, 2, 5, 3, 6, 8, 1, 4, 7)
    return ordered.flatten(3).contiguous()

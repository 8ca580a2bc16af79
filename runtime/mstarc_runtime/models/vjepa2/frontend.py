"""The host's part: a film → pixels of whole tubelets; what a request shows and asks for.

Frames are taken evenly from the whole film, as many as the model was trained with; each is scaled
so that its shorter side is a little longer than the crop in its middle.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import required
from mstarc_runtime.media.film import read_frames
from mstarc_runtime.plan_api import Media

_MEAN = (0.485, 0.456, 0.406)
_SPREAD = (0.229, 0.224, 0.225)
# How the model was evaluated: 256 pixels, of which 224 are looked at.
_AROUND = 256 / 224


class Frontend:
    """`config`: crop_size, patch_size, tubelet_size, frames_per_clip of config.json."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._crop = int(required(config, "crop_size"))
        self._depth = int(required(config, "tubelet_size"))
        self._most = int(required(config, "frames_per_clip"))
        self._cells = (self._crop // int(required(config, "patch_size"))) ** 2

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None) -> Self:
        return cls(config)

    def clip(self, clip: Media) -> Tensor:
        """Pixels f32[F, 3, crop, crop] of a film, F a multiple of the tubelet's depth.

        The last frame is repeated where some are missing. Fails with MS9206.
        """
        frames = list(read_frames(clip.content, self._most))
        short = int(self._crop * _AROUND)
        frames += [frames[-1]] * (-len(frames) % self._depth)
        return torch.stack([pixels(frame, self._crop, short) for frame in frames])

    def masks(
        self, px: Tensor, context: Tensor | None, target: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Rows that are shown i64[C] and asked for i64[A]; all, where a request does not say.

        Fails with MS9216 for rows that the clip does not have.
        """
        count = px.shape[0] // self._depth * self._cells
        everything = torch.arange(count)
        shown = everything if context is None else _rows("context", context, count)
        asked = everything if target is None else _rows("target", target, 2 * count)
        return shown, asked


def _rows(name: str, given: Tensor, count: int) -> Tensor:
    rows = given.long().flatten()
    if rows.numel() and not torch.equal(rows, given.flatten()):
        raise RuntimeFailure("MS9216", f"`{name}` has numbers that are no rows")
    if not rows.numel() or int(rows.min()) < 0 or int(rows.max()) >= count:
        raise RuntimeFailure("MS9216", f"`{name}` must have rows, of 0 .. {count - 1}")
    return rows


def pixels(frame: Any, crop: int, short: int) -> Tensor:
    """f32[3, crop, crop] of an image: scaled to a shorter side, cut from the middle, normed."""
    from PIL.Image import Resampling

    width, height = frame.size
    scale = short / min(width, height)
    size = (max(short, int(width * scale)), max(short, int(height * scale)))
    scaled = frame.resize(size, Resampling.BILINEAR)
    left, top = (size[0] - crop) // 2, (size[1] - crop) // 2
    cut = np.asarray(scaled.crop((left, top, left + crop, top + crop)), dtype=np.float32)
    values = torch.from_numpy(cut / 255.0).permute(2, 0, 1)
    mean, spread = torch.tensor(_MEAN)[:, None, None], torch.tensor(_SPREAD)[:, None, None]
    return (values - mean) / spread

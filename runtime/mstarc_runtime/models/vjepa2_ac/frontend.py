"""The host's part: a film, a goal, poses and moves as a request gives them → tensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import required
from mstarc_runtime.media.film import read_frames
from mstarc_runtime.media.images import read_image
from mstarc_runtime.models.vjepa2.frontend import pixels
from mstarc_runtime.plan_api import Media

_NUMBERS = 7
_MOST_FRAMES = 1024


class Frontend:
    """`config`: crop_size."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._crop = int(required(config, "crop_size"))

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None) -> Self:
        return cls(config)

    def clip(self, clip: Media, poses: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels f32[F, 3, crop, crop] of all frames of a film, and their poses f32[F, 7].

        Fails with MS9206, or with MS9216 where frames and poses are not as many.
        """
        frames = read_frames(clip.content, _MOST_FRAMES)
        given = _numbers("poses", poses, 2)
        if len(given) != len(frames):
            raise RuntimeFailure(
                "MS9216", f"`poses` has {len(given)} rows for a clip of {len(frames)} frames"
            )
        return torch.stack([self._pixels(frame) for frame in frames]), given

    def frame(self, frame: Media) -> Tensor:
        """Pixels f32[1, 3, crop, crop] of an image."""
        return self._pixels(read_image(frame.content))[None]

    def moves(self, s: Tensor, actions: Tensor) -> Tensor:
        """Moves f32[F, 7], one for each pose of `s`. Fails with MS9216."""
        return self._first("actions", actions, len(s))

    def path(self, actions: Tensor, horizon: int) -> Tensor:
        """The first `horizon` moves f32[horizon, 7]. Fails with MS9216."""
        return self._first("actions", actions, horizon)

    def choices(self, candidates: Tensor, samples: int, horizon: int) -> Tensor:
        """Moves f32[samples, horizon, 7] to compare. Fails with MS9216."""
        given = _numbers("candidates", candidates, 3)
        if given.shape[:2] != (samples, horizon):
            raise RuntimeFailure(
                "MS9216",
                f"`candidates` is {list(given.shape)}",
                notes=[f"`samples` and `horizon` say [{samples}, {horizon}, {_NUMBERS}]"],
            )
        return given

    def camera(self, extrinsics: Tensor | None) -> Tensor:
        """The model was trained without a camera's place. Fails with MS9216."""
        raise RuntimeFailure(
            "MS9216", "the model takes no `extrinsics`", helps=["leave the input out"]
        )

    def _first(self, name: str, given: Tensor, count: int) -> Tensor:
        moves = _numbers(name, given, 2)
        if len(moves) < count:
            raise RuntimeFailure(
                "MS9216", f"`{name}` has {len(moves)} rows, and {count} are needed"
            )
        return moves[:count]

    def _pixels(self, image: Any) -> Tensor:
        return pixels(image, self._crop, self._crop)


def _numbers(name: str, given: Tensor, dims: int) -> Tensor:
    if given.dim() != dims or given.shape[-1] != _NUMBERS or not given.numel():
        raise RuntimeFailure(
            "MS9216",
            f"`{name}` is {list(given.shape)}",
            notes=[f"its last dim is {_NUMBERS}: place, turn and grip"],
        )
    return given.float()

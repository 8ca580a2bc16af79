"""The host's part: cameras' images → pixels, an order and a state → ids.

The state is part of the order's text: each of its numbers, which a client has brought to -1 .. 1,
as one of 256 steps. An image keeps its proportions and gets bars where it is not square.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import required
from mstarc_runtime.media.images import read_image
from mstarc_runtime.media.tokens import AsciiVocabulary, FileVocabulary, Vocabulary
from mstarc_runtime.models.pi05.sizes import text_sizes, vision_sizes
from mstarc_runtime.plan_api import Media

_BEGINS = "<bos>"
_STEPS = 256


class Frontend:
    """`config`: vision_config.image_size, text_config.vocab_size, max_state_dim."""

    def __init__(self, config: Mapping[str, Any], words: Vocabulary, *, begins: int) -> None:
        self._words = words
        self._begins = begins
        self._side = int(required(vision_sizes(config), "image_size"))
        self._numbers = int(config.get("max_state_dim", 32))

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None) -> Self:
        """Over PaliGemma's `tokenizer.json` in `folder`; without one, a letter is a token. Fails
        with MS9104."""
        if folder is None:
            letters = AsciiVocabulary(int(required(text_sizes(config), "vocab_size")))
            return cls(config, letters, begins=2)
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise RuntimeFailure(
                "MS9104",
                f"`{folder}` has no tokenizer.json",
                helps=["put that of google/paligemma-3b-pt-224 there; policies come without"],
            )
        words = FileVocabulary(path)
        return cls(config, words, begins=words.token(_BEGINS))

    def images(self, base: Media, left: Media | None, right: Media | None) -> Tensor:
        """Pixels f32[C, 3, S, S] in -1 .. 1 of the cameras that there are. Fails with MS9206."""
        given = [image for image in (base, left, right) if image is not None]
        return torch.stack([squared(_pixels(image), self._side) for image in given])

    def order(self, order: str, state: Tensor) -> Tensor:
        """Ids i64[T] of an order and a state [N], N <= 32, in -1 .. 1. Fails with MS9216."""
        numbers = state.float().flatten()
        if not 1 <= numbers.numel() <= self._numbers or not bool(numbers.isfinite().all()):
            raise RuntimeFailure(
                "MS9216",
                f"`state` has {numbers.numel()} numbers",
                notes=[f"it has 1 to {self._numbers} finite ones"],
            )
        said = order.strip().replace("_", " ").replace("\n", " ")
        steps = " ".join(str(step) for step in state_steps(numbers))
        words = self._words.encode(f"Task: {said}, State: {steps};\nAction: ")
        return torch.tensor([self._begins, *words])


def state_steps(numbers: Tensor) -> list[int]:
    """Which of 256 equal steps of -1 .. 1 each number is in; -1 below the first."""
    edges = np.linspace(-1, 1, _STEPS + 1)[:-1]
    return [int(step) for step in np.digitize(numbers.numpy(), bins=edges) - 1]


def _pixels(image: Media) -> Tensor:
    """f32[3, H, W] in 0 .. 1."""
    values = np.asarray(read_image(image.content), dtype=np.float32) / 255.0
    return torch.from_numpy(values).permute(2, 0, 1)


def squared(px: Tensor, side: int) -> Tensor:
    """f32[3, side, side] in -1 .. 1 of pixels f32[3, H, W] in 0 .. 1, with bars of -1."""
    height, width = px.shape[1:]
    ratio = max(width / side, height / side)
    size = (max(1, int(height / ratio)), max(1, int(width / ratio)))
    scaled = functional.interpolate(
        (px * 2.0 - 1.0)[None], size=size, mode="bilinear", align_corners=False
    )[0].clamp(-1.0, 1.0)
    top, left = (side - size[0]) // 2, (side - size[1]) // 2
    bars = (left, side - size[1] - left, top, side - size[0] - top)
    return functional.pad(scaled, bars, value=-1.0)

"""The host's part: text → ids, an image's file → patches and pixels, tokens → text.

A turn is its text between two marks; the model was trained with none for who speaks. An image is
brought to a side that both readers can take: first as the drawer sees it, then, from that, as the
vision tower does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import required
from mstarc_runtime.media.images import read_image
from mstarc_runtime.media.tokens import AsciiVocabulary, FileVocabulary, TextState, Vocabulary
from mstarc_runtime.models.bagel.embeddings import plane, setting
from mstarc_runtime.models.bagel.sizes import Bounds
from mstarc_runtime.plan_api import Media

_OPENS, _CLOSES = "<|im_start|>", "<|im_end|>"
_MOST_PIXELS = 14 * 14 * 9 * 1024
_DRAWN = {"least": 512, "most": 1024}
_SEEN = {"least": 224, "most": 980}
_HOST = torch.device("cpu")


class Frontend:
    """`config`: vit_config.patch_size, vit_max_num_patch_per_side, latent_patch_size, vae_config;
    `image_bounds` gives other sides than the public ones, for small models."""

    stateful = ("detokenize",)

    def __init__(
        self, config: Mapping[str, Any], words: Vocabulary, *, opens: int, closes: int
    ) -> None:
        self._words = words
        self._opens, self._closes = opens, closes
        self._patch = int(required(required(config, "vit_config"), "patch_size"))
        self._side = int(setting(config, "vit_max_num_patch_per_side"))
        vae = setting(config, "vae_config")
        cell = int(vae.get("downsample", 8)) * int(setting(config, "latent_patch_size"))
        given = config.get("image_bounds", {})
        pixels = int(given.get("pixels", _MOST_PIXELS))
        self._drawn = Bounds(**(_DRAWN | given.get("drawn", {})), step=cell, pixels=pixels)
        self._seen = Bounds(**(_SEEN | given.get("seen", {})), step=self._patch, pixels=pixels)

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None) -> Self:
        """Over the `tokenizer.json` in `folder`; without one, a letter is a token. Fails with
        MS9104."""
        if folder is None:
            letters = AsciiVocabulary(int(required(required(config, "llm_config"), "vocab_size")))
            special = required(config, "special_tokens")
            return cls(
                config, letters, opens=int(special["im_start"]), closes=int(special["im_end"])
            )
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise RuntimeFailure("MS9104", f"`{folder}` has no tokenizer.json")
        words = FileVocabulary(path)
        return cls(config, words, opens=words.token(_OPENS), closes=words.token(_CLOSES))

    def text(self, part: str) -> Tensor:
        """Ids i64[T] of a turn: its text between the marks."""
        return torch.tensor([self._opens, *self._words.encode(part), self._closes])

    def image(self, part: Media) -> tuple[Tensor, Tensor, Tensor]:
        """Patches f32[P, 588], their places i64[P], and pixels f32[3, H, W] in -1 .. 1.

        Fails with MS9206 where the file is no image, or too long and narrow for the model.
        """
        drawn = self._drawn.fitted(read_image(part.content))
        # The public code fits it once more, which changes sides that exceed the bounds still.
        px = _pixels(self._drawn.fitted(drawn))
        seen = _pixels(self._seen.fitted(drawn))
        rows, columns = seen.shape[1] // self._patch, seen.shape[2] // self._patch
        if rows > self._side or columns > self._side:
            raise RuntimeFailure(
                "MS9206",
                f"an image of {columns} x {rows} patches is too long for the model",
                notes=[f"it sees {self._side} patches of {self._patch} pixels along a side"],
            )
        return patches_of(seen, self._patch), plane(rows, columns, self._side, _HOST), px

    def begin(self) -> TextState:
        return TextState()

    def detokenize(self, state: TextState, token: int) -> str:
        """The characters of a reply that `token` completes."""
        return state.feed(self._words.bytes_of(int(token)))

    def end(self, state: TextState) -> str:
        return state.feed(b"", final=True)


def _pixels(image: Any) -> Tensor:
    """f32[3, H, W] in -1 .. 1 of an image of 8 bits a colour."""
    values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    rows = values.view(image.height, image.width, 3).permute(2, 0, 1)
    return (rows.float() / 255 - 0.5) / 0.5


def patches_of(px: Tensor, patch: int) -> Tensor:
    """f32[P, patch * patch * 3]: row by row, the colours of a pixel together."""
    parts: Tensor = px.unflatten(2, (-1, patch)).unflatten(1, (-1, patch))
    return parts.permute(1, 3, 2, 4, 0).flatten(2).flatten(0, 1)

"""Parts of a request → ids, spectrograms, blocks of patches and positions; tokens → text.

A part comes with the ids that the chat template puts around it: the beginning and the end of a
turn, marks around media and, behind the last part, the beginning of the answer.

Positions are those of the Talker, which hears the user's turns only: three numbers a row, equal but
for rows of a picture, whose numbers are time, line and column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import require_value, required
from mstarc_runtime.media.audio import resample
from mstarc_runtime.media.film import film_blocks, read_film
from mstarc_runtime.media.images import read_image
from mstarc_runtime.media.log_mel import RATE, spectrogram
from mstarc_runtime.media.picture import PatchLayout, picture_blocks
from mstarc_runtime.media.tokens import (
    AsciiVocabulary,
    FileVocabulary,
    TextState,
    Vocabulary,
)
from mstarc_runtime.models.qwen3_omni.audio_tower import rows_of
from mstarc_runtime.plan_api import Audio, Media
from mstarc_runtime.weights.load import read_json

Words = tuple[Tensor, Tensor]
Heard = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
Seen = tuple[Tensor, Tensor, Tensor, Tensor, int, Tensor, Tensor, Tensor]

_ROLES = ("system", "user", "assistant")


@dataclass(slots=True)
class Reading:
    """How far a request has been read: the next position of the Talker's, and of the Thinker's; the
    text of its reply so far."""

    position: int = 0
    read: int = 0
    reply: TextState = field(default_factory=TextState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Ids of the chat template."""

    start: int
    end: int
    roles: Mapping[str, int]
    audio: tuple[int, int]
    vision: tuple[int, int]


class Frontend:
    """With a checkpoint's folder: its tokenizer. Without one (random weights): a letter a token."""

    stateful = ("text", "audio", "image", "video", "detokenize")

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        marks: Marks,
        speakers: Mapping[str, int],
        mels: int,
        piece: int,
        positions_a_second: float,
        positions: int,
        image: PatchLayout,
        video: PatchLayout,
    ) -> None:
        self._vocabulary = vocabulary
        self._marks = marks
        self._speakers = speakers
        self._mels = mels
        self._piece = piece
        self._positions_a_second = positions_a_second
        self._positions = positions
        self._image = image
        self._video = video

    @classmethod
    def build(cls, config: Mapping[str, Any], *, folder: Path | None) -> Self:
        """Fails with MS9104 or MS9109 where the folder or its config lack something."""
        thinker = required(config, "thinker_config")
        audio = required(thinker, "audio_config")
        processor = _processor(config, folder)
        vocabulary: Vocabulary
        if folder is None:
            # Ids of letters stay below those of marks, whose order nobody knows.
            vocabulary = AsciiVocabulary(int(required(thinker, "audio_token_id")))
        else:
            vocabulary = FileVocabulary.of_folder(folder)
        return cls(
            vocabulary=vocabulary,
            marks=_marks(config, vocabulary),
            speakers=required(required(config, "talker_config"), "speaker_id"),
            mels=int(required(audio, "num_mel_bins")),
            piece=2 * int(required(audio, "n_window")),
            positions_a_second=float(thinker.get("position_id_per_seconds", 25)),
            positions=int(required(required(thinker, "text_config"), "max_position_embeddings")),
            image=_layout(thinker, processor, 56 * 56, 12_845_056),
            video=_layout(thinker, processor.get("video", {}), 128 * 32 * 32, 768 * 32 * 32),
        )

    def begin(self) -> Reading:
        return Reading()

    def text(
        self, reading: Reading, part: str, role: str, opens: bool, closes: bool, last: bool
    ) -> Words:
        """Ids i64[T] and positions i64[T, 3]."""
        self._check_turn(role, last)
        before = self._opening(role) if opens else []
        inner = self._vocabulary.encode(f"\n{part}" if opens else part)
        return self._words(reading, role, [*before, *inner, *self._closing(closes, last)])

    def audio(
        self, reading: Reading, part: Audio, role: str, opens: bool, closes: bool, last: bool
    ) -> Heard:
        """Ids, positions before; f32[mels, M], positions of its rows; ids, positions after."""
        self._check_turn(role, last)
        mark, end = self._marks.audio
        before = self._words(reading, role, [*self._turn(role, opens), mark])
        mel = spectrogram(resample(part.samples, part.rate, RATE), self._mels)
        rows = rows_of(mel.shape[1], piece=self._piece)
        places = self._advance(reading, role, rows) + torch.arange(rows)[:, None].expand(-1, 3)
        after = self._words(reading, role, [end, *self._closing(closes, last)])
        return (*before, mel, places, *after)

    def image(
        self, reading: Reading, part: Media, role: str, opens: bool, closes: bool, last: bool
    ) -> Seen:
        """Ids and positions before; u8[1, Y, X, block]; places of its rows from where it begins,
        by how much positions move, positions of the rows; ids and positions after."""
        blocks = picture_blocks(read_image(part.content), self._image)
        return self._seen(reading, blocks, 0, role, opens, closes, last)

    def video(
        self, reading: Reading, part: Media, role: str, opens: bool, closes: bool, last: bool
    ) -> Seen:
        """As `image`, u8[F, Y, X, block]."""
        film = read_film(part.content)
        step = round(self._video.depth / film.rate * self._positions_a_second)
        return self._seen(reading, film_blocks(film, self._video), step, role, opens, closes, last)

    def speaker(self, voice: str) -> tuple[int, int]:
        """The id of a voice, and the position at which the Talker begins.

        Fails with MS9213 if the checkpoint doesn't know the voice.
        """
        known = self._speakers.get(voice.lower())
        if known is None:
            raise RuntimeFailure(
                "MS9213",
                f"`voice` can't be `{voice}`: the checkpoint has no such voice",
                notes=[f"it has {', '.join(f'`{name}`' for name in sorted(self._speakers))}"],
            )
        return int(known), 0

    def detokenize(self, reading: Reading, token: Tensor | int) -> str:
        """The text that a token of the reply completes."""
        return reading.reply.feed(self._vocabulary.bytes_of(int(token)))

    def end(self, reading: Reading) -> str:
        """What is left of the reply's text."""
        return reading.reply.feed(b"", final=True)

    def _seen(
        self,
        reading: Reading,
        blocks: Tensor,
        step: int,
        role: str,
        opens: bool,
        closes: bool,
        last: bool,
    ) -> Seen:
        self._check_turn(role, last)
        mark, end = self._marks.vision
        before = self._words(reading, role, [*self._turn(role, opens), mark])
        frames, lines, columns, _ = blocks.shape
        places = torch.cartesian_prod(
            torch.arange(frames) * step, torch.arange(lines), torch.arange(columns)
        )
        span = int(places.max()) + 1
        at = self._advance(reading, role, span) + places
        after = self._words(reading, role, [end, *self._closing(closes, last)])
        return (*before, blocks, places, span, at, *after)

    def _words(self, reading: Reading, role: str, ids: Sequence[int]) -> Words:
        start = self._advance(reading, role, len(ids))
        places = (start + torch.arange(len(ids)))[:, None].expand(-1, 3)
        return torch.tensor(ids, dtype=torch.int64), places.contiguous()

    def _advance(self, reading: Reading, role: str, span: int) -> int:
        """Where the next rows begin; they take `span` positions if the Talker hears them."""
        start = reading.position
        reading.read += span
        if reading.read > self._positions:
            raise RuntimeFailure(
                "MS9213",
                f"`parts` takes more than {self._positions} positions, which the model has",
                helps=["a long film takes 13 positions a second"],
            )
        if role == "user":
            reading.position += span
        return start

    def _opening(self, role: str) -> list[int]:
        return [self._marks.start, self._marks.roles[role]]

    def _turn(self, role: str, opens: bool) -> list[int]:
        return [*self._opening(role), *self._vocabulary.encode("\n")] if opens else []

    def _closing(self, closes: bool, last: bool) -> list[int]:
        line = self._vocabulary.encode("\n")
        end = [self._marks.end, *line] if closes else []
        return [*end, *self._opening("assistant"), *line] if last else end

    def _check_turn(self, role: str, last: bool) -> None:
        if role not in _ROLES:
            raise RuntimeFailure(
                "MS9213",
                f"`parts` has a turn of `{role}`",
                notes=[f"a turn is one of {', '.join(f'`{name}`' for name in _ROLES)}"],
            )
        if last and role != "user":
            raise RuntimeFailure(
                "MS9213",
                f"`parts` ends with a turn of `{role}`",
                notes=["the model answers to the user, whose turn must be the last one"],
            )


def _marks(config: Mapping[str, Any], vocabulary: Vocabulary) -> Marks:
    """The ids that the config names; those that it does not, a tokenizer knows by their words."""
    thinker = config["thinker_config"]

    def mark(key: str, word: str) -> int:
        if key not in thinker and isinstance(vocabulary, FileVocabulary):
            return vocabulary.token(word)
        return int(required(thinker, key))

    return Marks(
        start=int(required(config, "im_start_token_id")),
        end=int(required(config, "im_end_token_id")),
        roles={role: int(required(config, f"{role}_token_id")) for role in _ROLES},
        audio=(
            mark("audio_start_token_id", "<|audio_start|>"),
            mark("audio_end_token_id", "<|audio_end|>"),
        ),
        vision=(
            mark("vision_start_token_id", "<|vision_start|>"),
            mark("vision_end_token_id", "<|vision_end|>"),
        ),
    )


def _processor(config: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    """What the checkpoint says about pictures; without a folder, the config's `processor`."""
    path = None if folder is None else folder / "preprocessor_config.json"
    if path is not None and path.is_file():
        return read_json(path)
    given: Mapping[str, Any] = config.get("processor", {})
    return given


def _layout(
    thinker: Mapping[str, Any], processor: Mapping[str, Any], least: int, most: int
) -> PatchLayout:
    vision = required(thinker, "vision_config")
    size = processor.get("size") or {}
    for key in ("image_mean", "image_std"):
        # The tower norms pixels itself.
        require_value(processor, key, [0.5, 0.5, 0.5], [0.5, 0.5, 0.5])
    return PatchLayout(
        patch=int(required(vision, "patch_size")),
        merge=int(required(vision, "spatial_merge_size")),
        depth=int(required(vision, "temporal_patch_size")),
        min_pixels=int(processor.get("min_pixels") or size.get("shortest_edge", least)),
        max_pixels=int(processor.get("max_pixels") or size.get("longest_edge", most)),
    )

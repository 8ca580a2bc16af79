"""Parts of a request → spectrograms and blocks of patches, then the prompt as a whole: ids,
positions, and which rows are of media; tokens → text.

A part comes with the ids that the chat template puts around it: the beginning and the end of a
turn, marks around media and, behind the last part, the beginning of the answer.

Positions are three numbers a row, equal but for rows of a picture, whose numbers are time, line and
column. The Talker hears the user's turns only, and counts them by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.config import bad_config, require_value, required
from mstarc_runtime.media.audio import resample
from mstarc_runtime.media.film import Film, film_blocks, read_film, read_sound
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
from mstarc_runtime.models.qwen3_omni.marks import NEWLINE, ROLES, Marks
from mstarc_runtime.plan_api import Audio, Media
from mstarc_runtime.weights.load import read_json

Words = tuple[Tensor, Tensor, Tensor]
Prompt = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int, Tensor, Tensor, Tensor]


@dataclass(slots=True)
class Reading:
    """How far a request has been read: the next position of the Talker's, and of the Thinker's; how
    many rows there are, and how many encoders make, of both kinds and of pictures; the parts' rows,
    a tensor a part; the text of its reply so far.
    """

    position: int = 0
    read: int = 0
    rows: int = 0
    made: int = 0
    seen: int = 0
    parts: list["Rows"] = field(default_factory=list)
    reply: TextState = field(default_factory=TextState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a part: ids i64[T]; which rows they are of those that encoders make, 0 for words:
    of both kinds, and of pictures, i64[T]; positions i64[T, 3]. The last two are of what the Talker
    hears: the rows' numbers i64[H] and positions i64[H, 3].
    """

    ids: Tensor
    made: Tensor
    seen: Tensor
    places: Tensor
    heard: Tensor
    at: Tensor


_NONE = torch.zeros(0, dtype=torch.int64)


class Frontend:
    """With a checkpoint's folder: its tokenizer. Without one (random weights): a letter a token."""

    stateful = ("text", "audio", "image", "video", "film", "words", "prompt", "detokenize")

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
            vocabulary = AsciiVocabulary(int(required(thinker, "audio_token_id")), NEWLINE)
        else:
            vocabulary = FileVocabulary.of_folder(folder)
        if vocabulary.encode("\n") != [NEWLINE]:
            raise bad_config(
                "vocab_size", thinker["text_config"]["vocab_size"], "a Qwen tokenizer's"
            )
        return cls(
            vocabulary=vocabulary,
            marks=Marks.of(config),
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
    ) -> None:
        """Reads a text."""
        self._check_turn(role, last)
        before = self._opening(role) if opens else []
        inner = self._vocabulary.encode(f"\n{part}" if opens else part)
        ids = [*before, *inner, *self._closing(closes, last)]
        self._read(reading, role, ids, _line(len(ids)), len(ids))

    def audio(
        self, reading: Reading, part: Audio, role: str, opens: bool, closes: bool, last: bool
    ) -> Tensor:
        """f32[mels, M] of a sound."""
        before, after = self._around(self._marks.audio, role, opens, closes, last)
        mel = spectrogram(resample(part.samples, part.rate, RATE), self._mels)
        rows = rows_of(mel.shape[1], piece=self._piece)
        count = len(before) + rows + len(after)
        made = torch.arange(1, rows + 1)
        self._read(reading, role, before, _line(count), count, made=made, after=after)
        return mel

    def image(
        self, reading: Reading, part: Media, role: str, opens: bool, closes: bool, last: bool
    ) -> Tensor:
        """u8[1, Y, X, block] of a picture."""
        blocks = picture_blocks(read_image(part.content), self._image)
        self._see(reading, blocks, 0, role, opens, closes, last)
        return blocks

    def video(
        self, reading: Reading, part: Media, role: str, opens: bool, closes: bool, last: bool
    ) -> Tensor:
        """As `image`, u8[F, Y, X, block]."""
        film = read_film(part.content)
        blocks = film_blocks(film, self._video)
        self._see(reading, blocks, self._step(film), role, opens, closes, last)
        return blocks

    def film(
        self, reading: Reading, part: Media, role: str, opens: bool, closes: bool, last: bool
    ) -> tuple[Tensor, Tensor]:
        """As `video`, with the film's sound: f32[mels, M]. Rows of both stand by time; those of
        sound are made behind the others."""
        (seeing, seen), (hearing, heard) = self._marks.vision, self._marks.audio
        before, after = self._around((hearing, heard), role, opens, closes, last)
        before, after = [*before[:-1], seeing, hearing], [heard, seen, *after[1:]]
        film = read_film(part.content)
        blocks = film_blocks(film, self._video)
        mel = spectrogram(read_sound(part.content, RATE), self._mels)
        rows = _grid(blocks, self._step(film))
        both = torch.cat([rows, _line(rows_of(mel.shape[1], piece=self._piece))])
        order = both[:, 0].sort(stable=True).indices
        inside = both[order]
        # The model was trained to go on behind what is left of the one when the other is through.
        is_sound = order >= len(rows)
        left = int((is_sound != is_sound[-1]).nonzero()[-1]) + 1
        behind = int(inside[left:].max()) + 1
        places = _around(len(before), inside, behind, len(after))
        self._read(
            reading,
            role,
            before,
            places,
            len(before) + behind + len(after),
            made=order + 1,
            seen=(order + 1).masked_fill(is_sound, 0),
            after=after,
            # The Talker counts these rows one by one.
            at=_line(len(places)),
        )
        return blocks, mel

    def words(self, reading: Reading) -> Words:
        """Ids i64[T] of a prompt of texts, which rows the Talker hears, i64[H], and their positions
        i64[H, 3]."""
        parts = reading.parts
        return (
            torch.cat([part.ids for part in parts]),
            torch.cat([part.heard for part in parts]),
            torch.cat([part.at for part in parts]),
        )

    def prompt(self, reading: Reading) -> Prompt:
        """Ids i64[T] of a prompt; which rows these are of those that encoders have made, and which
        of those of pictures, i64[T], 0 for none; whether they are any, bool[T]; positions
        i64[T, 3], and the one behind them. Then which rows the Talker hears, i64[H], whether they
        are of media, bool[H], and their positions i64[H, 3].
        """
        ids, heard, at = self.words(reading)
        made = torch.cat([part.made for part in reading.parts])
        seen = torch.cat([part.seen for part in reading.parts])
        places = torch.cat([part.places for part in reading.parts])
        media = made > 0
        return ids, made, seen, media, places, reading.read, heard, media[heard], at

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

    def _see(
        self,
        reading: Reading,
        blocks: Tensor,
        step: int,
        role: str,
        opens: bool,
        closes: bool,
        last: bool,
    ) -> None:
        before, after = self._around(self._marks.vision, role, opens, closes, last)
        inside = _grid(blocks, step)
        behind = int(inside.max()) + 1
        places = _around(len(before), inside, behind, len(after))
        made, span = torch.arange(1, len(inside) + 1), len(before) + behind + len(after)
        self._read(reading, role, before, places, span, made=made, seen=made, after=after)

    def _step(self, film: Film) -> int:
        """Positions from one row of blocks to the next in time."""
        return round(self._video.depth / film.rate * self._positions_a_second)

    def _around(
        self, marks: tuple[int, int], role: str, opens: bool, closes: bool, last: bool
    ) -> tuple[list[int], list[int]]:
        """The ids before and behind a sound or picture."""
        self._check_turn(role, last)
        turn = [*self._opening(role), NEWLINE] if opens else []
        return [*turn, marks[0]], [marks[1], *self._closing(closes, last)]

    def _read(
        self,
        reading: Reading,
        role: str,
        before: Sequence[int],
        places: Tensor,
        span: int,
        *,
        made: Tensor = _NONE,
        seen: Tensor | None = None,
        after: Sequence[int] = (),
        at: Tensor | None = None,
    ) -> None:
        """Adds the rows of a part: words, those that encoders make, and words again.

        `made` and `seen` number them, of all of the part and of its pictures', from 1 on; 0: it is
        none, which without `seen` all are. `places` and `span` are of the part alone, and so is
        `at`, for the Talker, where it does not count as the Thinker does.
        """
        start = reading.read
        reading.read += span
        if reading.read > self._positions:
            raise RuntimeFailure(
                "MS9213",
                f"`parts` takes more than {self._positions} positions, which the model has",
                helps=["a long film takes 13 positions a second"],
            )
        seen = torch.zeros_like(made) if seen is None else seen
        count = len(places)
        sides = (len(before), len(after))
        rows = Rows(
            ids=torch.tensor([*before, *[0] * len(made), *after], dtype=torch.int64),
            made=pad(made + reading.made, sides),
            seen=pad((seen + reading.seen).masked_fill(seen == 0, 0), sides),
            places=start + places,
            heard=reading.rows + torch.arange(count if role == "user" else 0),
            at=reading.position + (places if at is None else at)[: count if role == "user" else 0],
        )
        reading.parts.append(rows)
        reading.rows += count
        reading.made += len(made)
        reading.seen += int((seen > 0).sum())
        if role == "user":
            reading.position += span if at is None else count

    def _opening(self, role: str) -> list[int]:
        return [self._marks.start, self._marks.roles[role]]

    def _closing(self, closes: bool, last: bool) -> list[int]:
        end = [self._marks.end, NEWLINE] if closes else []
        return [*end, *self._opening("assistant"), NEWLINE] if last else end

    def _check_turn(self, role: str, last: bool) -> None:
        if role not in ROLES:
            raise RuntimeFailure(
                "MS9213",
                f"`parts` has a turn of `{role}`",
                notes=[f"a turn is one of {', '.join(f'`{name}`' for name in ROLES)}"],
            )
        if last and role != "user":
            raise RuntimeFailure(
                "MS9213",
                f"`parts` ends with a turn of `{role}`",
                notes=["the model answers to the user, whose turn must be the last one"],
            )


def _grid(blocks: Tensor, step: int) -> Tensor:
    """Time, line and column of all blocks: i64[F · Y · X, 3]."""
    frames, lines, columns, _ = blocks.shape
    return torch.cartesian_prod(
        torch.arange(frames) * step, torch.arange(lines), torch.arange(columns)
    )


def _line(count: int) -> Tensor:
    """Places one behind the other, on all axes: i64[count, 3]."""
    return torch.arange(count)[:, None].repeat(1, 3)


def _around(before: int, inside: Tensor, behind: int, after: int) -> Tensor:
    """Places of all rows of a part: those `inside` begin behind `before` words, and `after` words
    follow at `behind`."""
    return torch.cat([_line(before), before + inside, before + behind + _line(after)])


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

"""Requests of a kind: which comes when, and inputs where nobody has given any.

By the seed and a request's number alone, so every target gets the same requests in the same order.
Texts are made of plain words, sound is a tone, a picture is a gradient.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from mstarc_runtime.bench.job import Job, Kind

if TYPE_CHECKING:
    from mstarc_runtime.loader import Declared
    from mstarc_runtime.request import Asked

DEFAULT_WORDS = (12, 24)
_SOUND_S = 2.0
_PICTURE_PIXELS = 64
_WORDS = (
    *("the", "one", "this", "every", "little", "quiet", "early", "late", "bright", "river"),
    *("window", "garden", "morning", "evening", "letter", "station", "bridge", "harbour"),
    *("market", "kitchen", "teacher", "neighbour", "walks", "opens", "carries", "finds"),
    *("remembers", "follows", "leaves", "paints", "answers", "slowly", "again", "together"),
    *("outside", "before", "after", "under", "over", "beside", "between", "and", "while"),
)


def kind_of(job: Job, number: int) -> tuple[Kind, Random]:
    """The kind of request `number`, and the draws of its own."""
    random = Random(f"{job.seed}/{number}")
    shares = [kind.share for kind in job.kinds]
    return random.choices(job.kinds, shares)[0], random


def text_of(kind: Kind, random: Random) -> str:
    """A sentence of as many words as the kind has rows."""
    low, high = kind.rows or DEFAULT_WORDS
    words = [random.choice(_WORDS) for _ in range(max(1, random.randint(low, high)))]
    return " ".join(words).capitalize() + "."


def made_up(
    job: Job, number: int, inputs: "Sequence[Declared]", folder: Path
) -> tuple[dict[str, Any], Kind]:
    """Inputs for every declared one that must be there, and the request's kind.

    Files that inputs name are written into `folder`. Fails with MS9015 where an input can't be
    made up.
    """
    kind, random = kind_of(job, number)
    given = {
        declared.name: _input(declared, kind, random, folder)
        for declared in inputs
        if not declared.optional
    }
    return given, kind


def read_requests(job: Job) -> "list[Asked]":
    """The requests of the job's file; none if it names none. Fails with MS9201 or MS9214."""
    from mstarc_runtime.request import read_request_file

    return [] if job.file is None else read_request_file(Path(job.file))


def _input(declared: "Declared", kind: Kind, random: Random, folder: Path) -> Any:
    if not declared.type.startswith("["):
        return _one(declared, declared.type, kind, random, folder)
    media = declared.type[1:-1].split(" | ")
    known = {each.partition("(")[0]: each for each in media}
    wanted: Mapping[str, int] = kind.parts or {next(iter(known)): 1}
    return [
        {name: _one(declared, known[name], kind, random, folder)}
        for name, count in wanted.items()
        if name in known
        for _ in range(count)
    ]


def _one(declared: "Declared", media: str, kind: Kind, random: Random, folder: Path) -> Any:
    if media == "text":
        return text_of(kind, random)
    if media.startswith("audio"):
        path = folder / "tone.wav"
        if not path.exists():
            _write_tone(path, int(media[6:-1]) if media.startswith("audio(") else 16_000)
        return str(path)
    if media == "image":
        path = folder / "gradient.png"
        if not path.exists():
            _write_picture(path)
        return str(path)
    from mstarc_runtime.errors import RuntimeFailure

    raise RuntimeFailure(
        "MS9015",
        f"nobody can make up `{declared.name}`, which is `{media}`",
        helps=["give requests in a file: `--requests requests.json`"],
    )


def _write_tone(path: Path, rate: int) -> None:
    import numpy as np
    import soundfile

    times = np.arange(int(rate * _SOUND_S)) / rate
    soundfile.write(path, (0.3 * np.sin(2 * math.pi * 220 * times)).astype(np.float32), rate)


def _write_picture(path: Path) -> None:
    import numpy as np

    from mstarc_runtime.media.images import png_bytes

    ramp = np.linspace(0, 255, _PICTURE_PIXELS, dtype=np.uint8)
    pixels = np.stack([np.tile(ramp, (_PICTURE_PIXELS, 1))] * 3)
    path.write_bytes(png_bytes(pixels))

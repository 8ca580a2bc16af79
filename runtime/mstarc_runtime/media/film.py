"""Films in: the bytes of a video file → some of its frames and the time between them; its sound.

Two frames a second are taken, or fewer where the film is long: then every second, third, … of
them, so that the time between two is a whole multiple.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.containers import container_of, unreadable
from mstarc_runtime.media.picture import PatchLayout, blocks, fitted

_A_SECOND: Final = 2
_LEAST: Final = 4
_MOST: Final = 768
# What all frames together may have, in blocks.
_BLOCKS: Final = 128_000 * 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Frames in RGB that follow one another at `rate` a second."""

    frames: tuple[Any, ...]
    rate: float


def read_film(content: bytes) -> Film:
    """The frames of a film that are looked at. Fails with MS9206."""
    taken = float(_A_SECOND)

    def choose(total: int, rate: float) -> list[int]:
        nonlocal taken
        chosen, taken = chosen_frames(total, rate)
        return chosen

    return Film(frames=_frames(content, choose), rate=taken)


def read_frames(content: bytes, most: int) -> tuple[Any, ...]:
    """At most so many frames of a film, in RGB, spread evenly over it. Fails with MS9206."""

    def choose(total: int, _: float) -> list[int]:
        count = min(total, most)
        return [number * total // count for number in range(count)]

    return _frames(content, choose)


def _frames(content: bytes, choose: Callable[[int, float], Sequence[int]]) -> tuple[Any, ...]:
    """The frames that `choose` takes, of how many there are and how many a second."""
    # Here, because most plans see no films.
    import av
    from PIL import Image

    kind = container_of(content)
    try:
        with av.open(io.BytesIO(content), mode="r", format=kind) as counted:
            total = sum(packet.size > 0 for packet in counted.demux(video=0))
        with av.open(io.BytesIO(content), mode="r", format=kind) as opened:
            rate = float(opened.streams.video[0].average_rate or 0)
            wanted = set(choose(total, rate))
            frames = tuple(
                Image.fromarray(frame.to_ndarray(format="rgb24"))
                for number, frame in enumerate(opened.decode(video=0))
                if number in wanted
            )
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise unreadable(error) from error
    if not frames:
        raise RuntimeFailure("MS9206", "a video holds no frames")
    return frames


def read_sound(content: bytes, rate: int) -> NDArray[np.float32]:
    """The sound of a film, f32[N] at `rate` hertz, mixed to one channel. Fails with MS9206."""
    import av

    kind = container_of(content)
    try:
        with av.open(io.BytesIO(content), mode="r", format=kind) as opened:
            if not opened.streams.audio:
                raise RuntimeFailure("MS9206", "a video has no sound")
            resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
            made = [
                piece.to_ndarray()[0]
                for frame in (*opened.decode(audio=0), None)
                for piece in resampler.resample(frame)
            ]
    except (av.FFmpegError, IndexError, ValueError) as error:
        raise unreadable(error) from error
    if not made:
        raise RuntimeFailure("MS9206", "a video has no sound")
    return np.concatenate(made).astype(np.float32)


def chosen_frames(total: int, rate: float) -> tuple[list[int], float]:
    """Which of `total` frames at `rate` a second are looked at, and how many those are a second.

    >>> chosen_frames(60, 10.0)
    ([0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55], 2.0)
    """
    if total < 1 or rate <= 0:
        return [0] if total else [], float(_A_SECOND)
    wanted = total / rate * _A_SECOND
    every = max(1, math.ceil(wanted / _MOST))
    count = min(max(wanted / every, _LEAST), total)
    count = max(1, math.floor(count / 2) * 2)
    return [int(number * total / count) for number in range(count)], _A_SECOND / every


def film_blocks(film: Film, layout: PatchLayout) -> Tensor:
    """u8[F / depth, Y, X, block]; the last frame stands in for those that a depth lacks."""
    count = len(film.frames)
    share = int(_BLOCKS * layout.side**2) * layout.depth // count
    most = max(min(layout.max_pixels, share), int(layout.min_pixels * 1.05))
    own = replace(layout, max_pixels=most)
    pixels = fitted(film.frames, own)
    missing = -count % layout.depth
    return blocks(np.concatenate([pixels, np.repeat(pixels[-1:], missing, axis=0)]), own)

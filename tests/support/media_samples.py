"""A small file of every kind that a server reads, and what may become of it on its way."""

import io
from collections.abc import Sequence
from typing import Any

import av
import numpy as np
import soundfile
from PIL import Image

# By the name of the file: who writes it, and what writes its frames.
_FILMS = {
    "film.mp4": ("mp4", "libx264"),
    "film.mov": ("mov", "mpeg4"),
    "film.webm": ("webm", "libvpx"),
    "film.mkv": ("matroska", "libx264"),
    "film.avi": ("avi", "mpeg4"),
}
_SOUNDS = {
    "sound.wav": ("WAV", "PCM_16"),
    "sound.flac": ("FLAC", "PCM_16"),
    "sound.ogg": ("OGG", "VORBIS"),
    "sound.opus": ("OGG", "OPUS"),
    "sound.mp3": ("MP3", "MPEG_LAYER_III"),
}
_PICTURES = {
    "picture.png": "PNG",
    "picture.jpeg": "JPEG",
    "picture.webp": "WEBP",
    "picture.gif": "GIF",
}
PICTURES = tuple(_PICTURES)
FILMS = tuple(_FILMS)
SOUNDS = tuple(_SOUNDS)


def sample(name: str) -> bytes:
    """The file of this name."""
    if name in _PICTURES:
        return _picture(_PICTURES[name])
    if name in _FILMS:
        return _film(*_FILMS[name])
    return _sound(*_SOUNDS[name])


def damaged(content: bytes, end: int, flips: Sequence[tuple[int, int]], doubled: int) -> bytes:
    """The file cut at `end` per mille; bits of some bytes turned; a part of it there twice.

    A flip is (where, bits): heads are where most is believed, so half of them hit the first bytes.
    """
    made = bytearray(content[: len(content) * end // 1000])
    for where, bits in flips:
        if made:
            near = where % (64 if where % 2 else len(made))
            made[near % len(made)] ^= bits
    at = len(made) * doubled // 1000
    return bytes(made[:at] + made[at // 2 :])


def _pixels(frame: int) -> "np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]":
    rows, columns = np.mgrid[0:64, 0:64]
    colours = [rows * 3 + frame * 9, columns * 3, (rows ^ columns) * 2]
    return np.stack(colours, axis=-1).astype(np.uint8)


def _picture(form: str) -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(_pixels(0))
    more = [Image.fromarray(_pixels(9))] if form in ("GIF", "WEBP") else []
    if more:
        picture.save(file, form, save_all=True, append_images=more)
    else:
        picture.save(file, form)
    return file.getvalue()


def _film(form: str, codec: str) -> bytes:
    file = io.BytesIO()
    with av.open(file, mode="w", format=form) as film:
        stream: Any = film.add_stream(codec, rate=4)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(_pixels(number), format="rgb24")
            film.mux(stream.encode(frame))
        film.mux(stream.encode())
    return file.getvalue()


def _sound(form: str, subtype: str) -> bytes:
    file = io.BytesIO()
    times = np.arange(12_000) / 24_000
    samples = (np.sin(times * 440 * 6.28) * 0.3).astype(np.float32)
    soundfile.write(file, samples, 24_000, format=form, subtype=subtype)
    return file.getvalue()

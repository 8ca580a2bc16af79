"""Samples → bytes of a sound format: wav and pcm as they come, others when the sound is whole.

The others are written by libsndfile, as far as the one that is installed can.
"""

import io
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import soundfile
from numpy.typing import NDArray

STREAMED: Final = ("wav", "pcm")
CONTENT_TYPES: Final = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
}
# Format and subtype of libsndfile.
_ENCODED: Final = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", None), "opus": ("OGG", "OPUS")}
_UNKNOWN: Final = 0xFFFFFFFF


def formats() -> tuple[str, ...]:
    """The formats that can be written here."""
    there = soundfile.available_formats()
    encoded = [
        name
        for name, (container, subtype) in _ENCODED.items()
        if container in there
        and (subtype is None or subtype in soundfile.available_subtypes(container))
    ]
    return (*STREAMED, *encoded)


def pcm(samples: NDArray[np.float32]) -> bytes:
    """f32[N] in -1 … 1 → 16-bit little-endian; louder samples are clipped."""
    whole = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2")
    return bytes(whole.tobytes())


def wav_header(rate: int, sample_count: int | None) -> bytes:
    """Of mono 16-bit sound; with None of a length that is not known yet."""
    size = _UNKNOWN if sample_count is None else 2 * sample_count
    whole = _UNKNOWN if sample_count is None else 36 + size
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    riff = struct.pack("<4sI4s", b"RIFF", whole, b"WAVE")
    return riff + form + struct.pack("<4sI", b"data", size)


def encoded(pieces: Sequence[NDArray[np.float32]], rate: int, form: str) -> bytes:
    """A whole sound as a file of `form`, one of `formats()`."""
    samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    if form == "pcm":
        return pcm(samples)
    if form == "wav":
        return wav_header(rate, len(samples)) + pcm(samples)
    container, subtype = _ENCODED[form]
    file = io.BytesIO()
    clipped = np.clip(samples, -1.0, 1.0)
    soundfile.write(file, clipped, rate, format=container, subtype=subtype)
    return file.getvalue()

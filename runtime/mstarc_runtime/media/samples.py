"""The samples of a sound file, read in pieces: what its head promises is not believed."""

import math
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.limits import too_large

Samples = NDArray[np.float32]

_BLOCK: Final = 1 << 16


def read_samples(
    source: Path | BinaryIO, name: str, most_s: float = math.inf
) -> tuple[Samples, int, int]:
    """f32[N] of all channels mixed, their rate, and how many channels there were.

    Fails with MS9202 (no sound), MS9203 (empty), MS9205 (samples that are no numbers) or MS9219.
    """
    pieces: list[Samples] = []
    count = 0
    try:
        with soundfile.SoundFile(source) as opened:
            rate, channels = int(opened.samplerate), int(opened.channels)
            while len(block := opened.read(_BLOCK, dtype="float32", always_2d=True)):
                count += len(block)
                if count > most_s * rate:
                    raise too_large(f"{name} lasts more than {most_s:g} s", "--max-sound")
                pieces.append(block.mean(axis=1, dtype=np.float32))
    except soundfile.LibsndfileError as error:
        raise RuntimeFailure(
            "MS9202",
            f"`{name}` is not a sound file that can be read",
            notes=[f"the sound library says: {str(error.error_string).strip().rstrip('.')}"],
            helps=["wav, flac, ogg and mp3 are read"],
        ) from error
    if not count:
        raise RuntimeFailure("MS9203", f"`{name}` holds no samples")
    samples = np.concatenate(pieces)
    if not np.isfinite(samples).all():
        raise RuntimeFailure("MS9205", f"`{name}` holds samples that are infinite or no numbers")
    return samples, rate, channels

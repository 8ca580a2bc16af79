"""Recordings in, speech out.

A sound file of any rate and channel count → `Audio`, mono float32 at the rate that is wanted, and
notes that say what was changed. Samples → a wav file, written as they come: while it grows it is a
hidden file with a right header, and it appears under its name when it is whole.
"""

import contextlib
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import numpy as np
import torch
import torch.nn.functional as F

from mstarc_runtime.errors import RuntimeFailure, not_opened, not_written
from mstarc_runtime.media.samples import Samples, read_samples
from mstarc_runtime.plan_api import Audio

_LOBES: Final = 16
_SILENT_PEAK: Final = 1e-3
# Phases times the samples that each skips: 48000 → 44100 Hz has 23520.
_MOST_PHASES: Final = 2_000_000


def read_audio(path: Path, rate: int | None) -> tuple[Audio, tuple[str, ...]]:
    """The recording in `path` as mono float32 at `rate` hertz (its own, if it is None), and what
    was done to it.

    Fails with MS9201 (missing, unreadable), MS9202 (no sound), MS9203 (empty) or MS9205 (samples
    that are no numbers).
    """
    _check_readable(path)
    return decode_audio(path, str(path), path.name, rate)


def decode_audio(
    source: Path | BinaryIO, path: str, name: str, rate: int | None
) -> tuple[Audio, tuple[str, ...]]:
    """As `read_audio`, of a file or of its content; failures call it `path`, notes `name`."""
    mono, found_rate, channels = read_samples(source, path)
    notes = []
    if channels > 1:
        notes.append(f"`{name}`: {channels} channels were mixed to one")
    if rate is None:
        rate = found_rate
    check_rates(found_rate, rate)
    if found_rate != rate:
        notes.append(f"`{name}`: resampled from {found_rate} Hz to {rate} Hz")
    if np.abs(mono).max() < _SILENT_PEAK:
        notes.append(f"`{name}`: the recording is silent")
    return Audio(samples=resample(mono, found_rate, rate), rate=rate), tuple(notes)


def check_rates(source: int, target: int) -> None:
    """Fails with MS9202 where `resample` would need a kernel for too many phases."""
    common = math.gcd(source, target)
    if target // common * (source // common) > _MOST_PHASES:
        raise RuntimeFailure(
            "MS9202",
            f"a sound of {source} Hz can't be brought to {target} Hz",
            notes=["the two have too little in common"],
            helps=["record at a usual rate: 16000, 24000, 44100 or 48000 Hz"],
        )


def resample(samples: Samples, source: int, target: int) -> Samples:
    """f32[N] at `source` hertz → f32[ceil(N · target / source)] at `target` hertz.

    Windowed-sinc interpolation, one kernel for each phase that output samples have between input
    samples.
    """
    if source == target:
        return samples
    common = math.gcd(source, target)
    up, down = target // common, source // common
    cutoff = min(1.0, up / down) * 0.95
    half = math.ceil(_LOBES / cutoff)
    taps = np.arange(-half, half + down)
    distance = taps - (np.arange(up) * down / up)[:, None]
    window = np.cos(np.clip(distance / half, -1, 1) * np.pi / 2) ** 2
    kernels = cutoff * np.sinc(cutoff * distance) * window
    length = math.ceil(len(samples) * up / down)
    padded = F.pad(torch.from_numpy(samples).double(), (half, half + down))
    phases = F.conv1d(padded.view(1, 1, -1), torch.from_numpy(kernels).unsqueeze(1), stride=down)
    result: Samples = phases[0].T.flatten()[:length].float().numpy()
    return result


class WavWriter:
    """A mono 16-bit wav file that grows. As a context: whole on success, gone on an error.

    Between `begin` and `close` the sound is in `<name>.part` beside it, playable at every moment.
    """

    _file: BinaryIO

    def __init__(self, path: Path, rate: int) -> None:
        self.path = path
        self.rate = rate
        self.sample_count = 0
        self._partial = path.with_name(f"{path.name}.part")

    def begin(self) -> Self:
        """Makes the file. Whoever may be interrupted knows the writer before."""
        with _writing(self.path):
            self._file = self._partial.open("wb")
            self._file.write(self._header())
        return self

    def write(self, samples: Samples) -> None:
        """Appends f32[N] in -1 … 1; louder samples are clipped."""
        whole = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2")
        with _writing(self.path):
            self._file.write(whole.tobytes())
            self.sample_count += len(whole)
            end = self._file.tell()
            self._file.seek(0)
            self._file.write(self._header())
            self._file.seek(end)
            self._file.flush()

    def close(self) -> None:
        """Lets the file appear under its name."""
        with _writing(self.path):
            self._file.close()
            os.replace(self._partial, self.path)

    def abort(self) -> None:
        """Leaves nothing behind."""
        with contextlib.suppress(OSError, AttributeError):  # it may not have begun
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _header(self) -> bytes:
        size = 2 * self.sample_count
        form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, self.rate, 2 * self.rate, 2, 16)
        riff = struct.pack("<4sI4s", b"RIFF", 36 + size, b"WAVE")
        return riff + form + struct.pack("<4sI", b"data", size)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise not_written(path, error) from error


def _check_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            return
    except OSError as error:
        raise not_opened(path, error) from error

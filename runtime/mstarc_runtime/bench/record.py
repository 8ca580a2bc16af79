"""What one request heard, and when: seconds since its measurement began.

A record is written while its request runs and only read afterwards. Nothing is summed up here.
"""

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(slots=True, kw_only=True)
class Record:
    """One request. `due_s` is when it should have begun, `begun_s` when it did.

    `sounds` are (when, seconds of sound) of each chunk, `texts` the times of pieces of text.
    `tokens` is None where nobody counts them. `error` is empty if the request ended well.
    """

    number: int
    due_s: float
    begun_s: float
    first_output_s: float | None = None
    ended_s: float | None = None
    sounds: list[tuple[float, float]] = field(default_factory=list)
    texts: list[float] = field(default_factory=list)
    tokens: int | None = None
    error: str = ""

    def heard(self, now_s: float, sound_s: float) -> None:
        self._made(now_s)
        self.sounds.append((now_s, sound_s))

    def read(self, now_s: float) -> None:
        self._made(now_s)
        self.texts.append(now_s)

    def got(self, now_s: float) -> None:
        """A value that is neither text nor sound."""
        self._made(now_s)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Record":
        sounds = [(when, length) for when, length in content["sounds"]]
        return cls(**{**content, "sounds": sounds})

    def _made(self, now_s: float) -> None:
        if self.first_output_s is None:
            self.first_output_s = now_s

    # What follows from it

    @property
    def sound_s(self) -> float:
        return sum(length for _, length in self.sounds)

    @property
    def latency_s(self) -> float:
        assert self.ended_s is not None
        return self.ended_s - self.due_s

    @property
    def first_sound_s(self) -> float | None:
        return self.sounds[0][0] - self.due_s if self.sounds else None

    @property
    def first_text_s(self) -> float | None:
        return self.texts[0] - self.due_s if self.texts else None

    @property
    def first_s(self) -> float | None:
        return None if self.first_output_s is None else self.first_output_s - self.due_s

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work for a second of sound; below 1 is faster than one listens."""
        if self.ended_s is None or not self.sound_s:
            return None
        return (self.ended_s - self.begun_s) / self.sound_s

    @property
    def gaps_s(self) -> list[float]:
        """Between chunks of sound, or pieces of text where there is no sound."""
        times = [when for when, _ in self.sounds] or self.texts
        return [after - before for before, after in pairwise(times)]

    @property
    def underruns_s(self) -> list[float]:
        """How long a listener who begins with the first chunk waits each time there is no more."""
        waits: list[float] = []
        heard_to = 0.0
        for when, length in self.sounds:
            if heard_to and when > heard_to:
                waits.append(when - heard_to)
            heard_to = max(heard_to, when) + length
        return waits

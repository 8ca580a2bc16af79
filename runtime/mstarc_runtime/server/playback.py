"""A sound as it is heard by a client that plays what it has at once: does it ever wait?

An underrun is a piece that comes later than all that came before it lasts.
"""

import time
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True, eq=False)
class Playback:
    """One output of sound of one request. Seconds.

    >>> playback = Playback()
    >>> for now_s in (0.0, 0.5, 2.25):
    ...     playback.came(1.0, now_s)
    >>> playback.sound_s, playback.underruns, playback.silent_s
    (3.0, 1, 0.25)
    """

    sound_s: float = 0.0
    underruns: int = 0
    silent_s: float = 0.0
    last_s: float = 0.0
    _plays_until_s: float = 0.0

    def came(self, seconds: float, now_s: float | None = None) -> None:
        """A piece of so many seconds has come, by the monotonic clock."""
        now_s = time.monotonic() if now_s is None else now_s
        if self.sound_s and now_s > self._plays_until_s:
            self.underruns += 1
            self.silent_s += now_s - self._plays_until_s
        self._plays_until_s = max(self._plays_until_s, now_s) + seconds
        self.sound_s += seconds
        self.last_s = now_s

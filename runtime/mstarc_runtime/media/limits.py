"""How much media of strangers may be, and what it may cost to read them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    """Of one sound: seconds. Of one picture, and of each frame of a film: pixels. Of one film:
    seconds and frames. `memory_bytes` beyond what the decoder needs before it begins, seconds of
    processor, and of waiting, for one of them."""

    sound_s: float = 600.0
    picture_pixels: int = 50_000_000
    film_s: float = 600.0
    film_frames: int = 36_000
    memory_bytes: int = 1_000_000_000
    cpu_s: int = 20
    wait_s: float = 60.0

"""How much media of strangers may be, and what it may cost to read them."""

from dataclasses import dataclass

from mstarc_runtime.errors import RuntimeFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    """Of a request's sounds together: seconds. Of its pictures together, and of each frame of a
    film: pixels. Of its films together: seconds and frames.

    Of all requests' sounds together: `held_bytes` of samples.

    For reading one of them: `memory_bytes` beyond what its reader needs before it begins, seconds
    of processor, and of waiting for a reader.
    """

    sound_s: float = 600.0
    picture_pixels: int = 50_000_000
    film_s: float = 600.0
    film_frames: int = 36_000
    held_bytes: int = 2_000_000_000
    memory_bytes: int = 1_000_000_000
    cpu_s: int = 60
    wait_s: float = 60.0


def too_large(message: str, option: str) -> RuntimeFailure:
    """MS9219."""
    return RuntimeFailure("MS9219", message, notes=[f"`{option}` says how much there may be"])

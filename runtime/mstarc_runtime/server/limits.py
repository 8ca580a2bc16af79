"""What a server lets in, and the words of `mstarc serve` that say so."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mstarc_runtime.media.limits import MediaLimits

_MB: Final = 1_000_000
# Of a request that is on its way: 128 kbit/s.
LEAST_BYTES_A_SECOND: Final = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a connection may ask nothing, and how long a request may take to come: `request_s`
    and a second more for each `LEAST_BYTES_A_SECOND` that came."""

    idle_s: float = 60.0
    request_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`queue` requests of a key wait at most. Bytes of a request's body, and of an answer left
    unread. A request that says nothing else has `deadline_s` seconds, if there is a number."""

    queue: int
    body_bytes: int
    unread_bytes: int
    deadline_s: float | None = None
    patience: Patience = field(default_factory=Patience)
    media: MediaLimits = field(default_factory=MediaLimits)
    media_processes: int = 2


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The options of limits, each with what it is by default."""
    usual, patience = MediaLimits(), Patience()
    limits: tuple[tuple[str, int, str, str], ...] = (
        ("queue", 64, "N", "requests of a key that may wait for a slot; more are answered 429"),
        ("deadline", 0, "SECONDS", "what a request has from its coming to its end; 0: no end"),
        (
            "idle-timeout",
            int(patience.idle_s),
            "SECONDS",
            "how long a connection may ask nothing before it is closed",
        ),
        (
            "request-timeout",
            int(patience.request_s),
            "SECONDS",
            f"how long a request may take to come, and one more for {LEAST_BYTES_A_SECOND // 1000} "
            "kB of it; then it is answered 408",
        ),
        ("max-body-mb", 64, "MB", "of a request's body"),
        ("max-unread-mb", 64, "MB", "of an answer not taken; above it the request ends"),
        ("max-sound", int(usual.sound_s), "SECONDS", "of a request's sounds"),
        ("max-film", int(usual.film_s), "SECONDS", "of a request's films"),
        ("max-film-frames", usual.film_frames, "N", "of a request's films"),
        (
            "max-picture-mp",
            usual.picture_pixels // _MB,
            "MP",
            "pixels of a request's pictures",
        ),
        ("max-sounds-mb", usual.held_bytes // _MB, "MB", "of all sounds in memory, as samples"),
        ("media-memory-mb", usual.memory_bytes // _MB, "MB", "for reading one of them"),
        ("media-cpu", usual.cpu_s, "SECONDS", "of processor time for reading one of them"),
        ("media-processes", 2, "N", "that read them"),
    )
    for name, default, unit, said in limits:
        least = 0 if name in ("queue", "deadline") else 1
        parser.add_argument(
            f"--{name}", type=_at_least(least), default=default, metavar=unit, help=said
        )


def limits_of(options: argparse.Namespace) -> Limits:
    """The limits that the words say."""
    return Limits(
        queue=options.queue,
        body_bytes=options.max_body_mb * _MB,
        unread_bytes=options.max_unread_mb * _MB,
        deadline_s=options.deadline or None,
        patience=Patience(idle_s=options.idle_timeout, request_s=options.request_timeout),
        media=MediaLimits(
            sound_s=options.max_sound,
            picture_pixels=options.max_picture_mp * _MB,
            film_s=options.max_film,
            film_frames=options.max_film_frames,
            held_bytes=options.max_sounds_mb * _MB,
            memory_bytes=options.media_memory_mb * _MB,
            cpu_s=options.media_cpu,
        ),
        media_processes=options.media_processes,
    )


def _at_least(least: int) -> Callable[[str], int]:
    """A reader of whole numbers that are not less than `least`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"`{text}` is not a whole number") from error
        if number < least:
            raise argparse.ArgumentTypeError(f"`{text}` is less than {least}")
        return number

    return read

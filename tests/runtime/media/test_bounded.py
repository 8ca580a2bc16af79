"""Media of strangers: what lies about its size, or costs too much, ends alone and with a code."""

import asyncio
import gc
import io
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.images import read_image
from mstarc_runtime.media.limits import MediaLimits
from mstarc_runtime.server.media_pool import MediaPool
from mstarc_runtime.server.sound_formats import wav_header
from tests.support.bombs import large_gif, silence, wall
from tests.support.golden import ROOT
from tests.support.omni_media import write_media

LIMITS = MediaLimits(
    sound_s=2.0,
    picture_pixels=4_000_000,
    film_s=3.0,
    film_frames=100,
    memory_bytes=150_000_000,
    cpu_s=2,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[MediaPool]:
    made = MediaPool(LIMITS, 1)
    yield made
    made.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


def code_of(work: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(RuntimeFailure) as failing:
        run(work)
    return failing.value.code


def sound(seconds: float, form: str = "WAV", rate: int = 16000, channels: int = 1) -> bytes:
    file = io.BytesIO()
    count = int(seconds * rate)
    samples = np.sin(np.arange(count * channels) / 20).reshape(count, channels)
    soundfile.write(file, samples, rate, format=form)
    return file.getvalue()


def saved(form: str, *pictures: Image.Image) -> bytes:
    file = io.BytesIO()
    pictures[0].save(file, form, save_all=len(pictures) > 1, append_images=pictures[1:])
    return file.getvalue()


def test_a_sound_is_what_it_was(pool: MediaPool) -> None:
    content = sound(1.0, channels=2)
    read = run(pool.sound(content, 16000, pool.allowance()))
    plain, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    assert np.array_equal(read.samples, plain.mean(axis=1, dtype=np.float32))
    assert run(pool.sound(content, 24000, pool.allowance())).samples.size == 24000
    assert run(pool.sound(content, None, pool.allowance())).rate == 16000


def test_what_a_request_brings_is_counted_together(pool: MediaPool) -> None:
    left = pool.allowance()
    run(pool.sound(sound(1.5), None, left))
    assert code_of(pool.sound(sound(1.0), None, left)) == "MS9219"
    picture = saved("PNG", Image.new("RGB", (1500, 1500)))
    run(pool.check_picture(picture, left))
    assert code_of(pool.check_picture(picture, left)) == "MS9219"


def test_sounds_that_somebody_has_are_bounded(pool: MediaPool) -> None:
    few = MediaPool(replace(LIMITS, held_bytes=100_000), 1)
    try:
        first = run(few.sound(sound(1.0), None, few.allowance()))
        second = run(few.sound(sound(1.0), 24000, few.allowance()))
        assert few.held_bytes == first.samples.nbytes + second.samples.nbytes == 160_000
        assert code_of(few.sound(sound(0.1), None, few.allowance())) == "MS9310"
        del first
        gc.collect()
        assert few.held_bytes == 96_000
        run(few.sound(sound(0.1), None, few.allowance()))
        del second
        gc.collect()
        assert few.held_bytes == 0
    finally:
        few.close()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


SOUNDS: list[tuple[str, Callable[[], bytes], str]] = [
    ("nothing", lambda: b"", "MS9202"),
    ("text", lambda: b"hello" * 100, "MS9202"),
    ("too long", lambda: sound(3.0), "MS9219"),
    ("hours of silence in a few bytes", lambda: silence(3600), "MS9219"),
    ("no samples", lambda: wav_header(16000, 0), "MS9203"),
    ("a rate of nothing", lambda: wav_header(0, 100) + bytes(200), "MS9202"),
    ("a rate with nothing in common", lambda: sound(1.0, rate=44101), "MS9202"),
    ("one hertz", lambda: wav_header(1, 5000) + bytes(10000), "MS9219"),
]


@pytest.mark.parametrize(
    ("make", "code"), [case[1:] for case in SOUNDS], ids=[c[0] for c in SOUNDS]
)
def test_a_bad_sound_is_refused(pool: MediaPool, make: Callable[[], bytes], code: str) -> None:
    assert code_of(pool.sound(make(), 16000, pool.allowance())) == code
    assert run(pool.sound(sound(0.1), 16000, pool.allowance())).samples.size == 1600


def test_a_head_that_promises_more_than_there_is_is_not_believed(pool: MediaPool) -> None:
    """Four thousand million samples, says the head."""
    content = wav_header(16000, None) + bytes(3200)
    assert run(pool.sound(content, 16000, pool.allowance())).samples.size == 1600
    many = bytearray(sound(0.5, channels=8))
    assert run(pool.sound(bytes(many), 16000, pool.allowance())).samples.size == 8000


PICTURES: list[tuple[str, Callable[[], bytes], str]] = [
    ("nothing", lambda: b"", "MS9206"),
    ("text", lambda: b"hello" * 100, "MS9206"),
    ("a white wall", lambda: wall(20_000, 20_000), "MS9219"),
    ("a wall that says it is larger than any", lambda: wall(2**31 - 1, 2**31 - 1, b""), "MS9219"),
    ("less than it says", lambda: wall(1000, 1000, b"\0" * 9), "MS9206"),
    ("half a photograph", lambda: cut(saved("JPEG", Image.new("RGB", (640, 480)))), "MS9206"),
    (
        "a program for a printer",
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "MS9206",
    ),
    ("a gif of a large screen", lambda: large_gif(), "MS9219"),
]


@pytest.mark.parametrize(
    ("make", "code"), [case[1:] for case in PICTURES], ids=[c[0] for c in PICTURES]
)
def test_a_bad_picture_is_refused(pool: MediaPool, make: Callable[[], bytes], code: str) -> None:
    content = make()
    assert len(content) < 100_000
    assert code_of(pool.check_picture(content, pool.allowance())) == code
    run(pool.check_picture(wall(64, 64), pool.allowance()))


def test_a_file_that_takes_too_much_memory_or_time_is_ended(pool: MediaPool) -> None:
    """What its size allows may still be dear: with less to spend the same files are refused."""
    poor = MediaPool(MediaLimits(picture_pixels=400_000_000, memory_bytes=50_000_000, cpu_s=1), 1)
    try:
        assert code_of(poor.check_picture(wall(12_000, 12_000), poor.allowance())) == "MS9220"
        run(poor.check_picture(wall(64, 64), poor.allowance()))
    finally:
        poor.close()


def test_a_reader_that_dies_is_replaced(pool: MediaPool) -> None:
    run(pool.check_picture(wall(64, 64), pool.allowance()))
    before = pool.started
    (reader,) = pool._idle
    reader._process.kill()
    reader._process.wait()
    assert code_of(pool.check_picture(wall(64, 64), pool.allowance())) == "MS9220"
    run(pool.check_picture(wall(64, 64), pool.allowance()))
    assert pool.started == before + 1


def test_films_are_read_to_their_end(pool: MediaPool, tmp_path: Path) -> None:
    film = (write_media(tmp_path) / "film.mp4").read_bytes()
    run(pool.check_film(film, pool.allowance()))
    assert code_of(pool.check_film(cut(film), pool.allowance())) == "MS9206"
    assert code_of(pool.check_film(b"", pool.allowance())) == "MS9206"
    # A list of other files, which some readers of films would follow.
    other = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
    assert code_of(pool.check_film(other, pool.allowance())) == "MS9206"
    left = pool.allowance()
    left.film_frames = 3
    assert code_of(pool.check_film(film, left)) == "MS9219"
    small = MediaPool(MediaLimits(picture_pixels=64), 1)
    try:
        assert code_of(small.check_film(film, small.allowance())) == "MS9219"
    finally:
        small.close()


def test_no_reader_that_runs_programs_is_tried() -> None:
    with pytest.raises(RuntimeFailure, match="MS9206"):
        read_image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    assert read_image((ROOT / "examples" / "bagel.png").read_bytes()).mode == "RGB"

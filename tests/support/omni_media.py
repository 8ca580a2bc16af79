"""Small media files of noise for requests to Qwen3-Omni."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def write_media(folder: Path) -> Path:
    """`short.wav`, `long.wav`, `wide.png`, `tall.png`, `film.mp4` and, with sound, `talk.mp4`."""
    random = np.random.default_rng(5)
    for name, seconds in (("short", 0.4), ("long", 2.3)):
        with wave.open(str(folder / f"{name}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16000)
            noise = random.integers(-8000, 8000, int(16000 * seconds), dtype=np.int16)
            file.writeframes(noise.tobytes())
    for name, size in (("wide", (150, 70)), ("tall", (64, 128))):
        pixels = random.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    (folder / "film.mp4").write_bytes(_film(random))
    (folder / "talk.mp4").write_bytes(_film(random, samples=24000))
    return folder


def _film(random: np.random.Generator, samples: int = 0) -> bytes:
    """2.4 s of 96 x 64 pixels, 10 frames a second, with so many samples of sound at 16 kHz."""
    av = pytest.importorskip("av")
    content = io.BytesIO()
    with av.open(content, "w", format="mp4") as made:
        stream = made.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        sound = made.add_stream("aac", rate=16000, layout="mono") if samples else None
        for _ in range(24):
            pixels = random.integers(0, 256, (64, 96, 3), dtype=np.uint8)
            made.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        made.mux(stream.encode())
        if sound is not None:
            noise = random.uniform(-0.3, 0.3, (1, samples)).astype(np.float32)
            frame = av.AudioFrame.from_ndarray(noise, format="fltp", layout="mono")
            frame.sample_rate = 16000
            made.mux(sound.encode(frame))
            made.mux(sound.encode())
    return content.getvalue()

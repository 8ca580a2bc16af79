"""Files that are small and unpack to very much."""

import io
import struct
import zlib

import numpy as np
import soundfile
from PIL import Image


def wall(width: int, height: int, rows: bytes | None = None) -> bytes:
    """A picture of one bit a pixel, as small as a file can be for its size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    data = zlib.compress(bytes((width + 7) // 8 + 1) * height if rows is None else rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def large_gif() -> bytes:
    """A small picture on a screen of 4 gigapixels, says its head."""
    file = io.BytesIO()
    Image.new("P", (8, 8)).save(file, "GIF")
    content = bytearray(file.getvalue())
    content[6:10] = struct.pack("<HH", 65535, 65535)
    return bytes(content)


def silence(seconds: int) -> bytes:
    """Very much of it in few bytes."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(seconds * 8000, np.int16), 8000, format="FLAC")
    assert len(file.getvalue()) < 1_000_000
    return file.getvalue()

"""Images in files ↔ pixels of 8 bits a colour."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from mstarc_runtime.errors import RuntimeFailure

# No other reader is tried: some run programs.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")


def opened_image(content: bytes) -> Image.Image:
    """An image whose pixels have not been read yet. Fails with MS9206."""
    with _refused():
        return Image.open(BytesIO(content), formats=_FORMATS)


def read_image(content: bytes) -> Image.Image:
    """An image of three colours, upright; what is clear in it is white. Fails with MS9206."""
    with _refused():
        opened = ImageOps.exif_transpose(Image.open(BytesIO(content), formats=_FORMATS))
        if opened.mode == "RGB":
            opened.load()
            return opened
        if not opened.has_transparency_data:
            return opened.convert("RGB")
        clear = opened.convert("RGBA")
        ground = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(ground, clear).convert("RGB")


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    # The library raises SyntaxError for broken PNG chunks and ValueError for broken headers.
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise RuntimeFailure(
            "MS9206",
            "an image can't be read",
            notes=[f"the picture library says: {str(error).strip().rstrip('.')}"],
            helps=["png, jpeg, webp and gif are read"],
        ) from error
    except Image.DecompressionBombError as error:
        raise RuntimeFailure("MS9206", "an image is too large", notes=[str(error)]) from error


def png_bytes(pixels: NDArray[Any]) -> bytes:
    """A PNG file of `pixels` u8[3, H, W]."""
    return image_bytes(pixels, "png")


def image_bytes(pixels: NDArray[Any], form: str) -> bytes:
    """A file of `pixels` u8[3, H, W] in the format `png`, `jpeg` or `webp`."""
    assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[0] == 3, (
        f"an image is u8[3, H, W], not {pixels.dtype}{list(pixels.shape)}"
    )
    buffer = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(buffer, form.upper())
    return buffer.getvalue()

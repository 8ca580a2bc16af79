"""Images of files become three colours, and images that a request makes become PNG files."""

import io
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mstarc_runtime.answer import Answer, Target, TextPrinter
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.images import png_bytes, read_image


def _pixels(height: int = 5, width: int = 7) -> np.ndarray:
    return np.arange(3 * height * width, dtype=np.uint8).reshape(3, height, width)


def _file(image: Image.Image, **how: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG", **how)
    return buffer.getvalue()


def test_pixels_come_back_from_a_png() -> None:
    image = read_image(png_bytes(_pixels()))
    assert image.mode == "RGB" and image.size == (7, 5)
    assert np.array_equal(np.asarray(image).transpose(2, 0, 1), _pixels())


@pytest.mark.parametrize("mode", ["L", "RGBA", "LA", "P", "1", "I;16"])
def test_images_of_any_mode_have_three_colours(mode: str) -> None:
    assert read_image(_file(Image.new(mode, (4, 3)))).mode == "RGB"


def test_clear_parts_are_white() -> None:
    image = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (255, 0, 0, 0))
    assert list(np.asarray(read_image(_file(image)))[0].tolist()) == [[255, 0, 0], [255, 255, 255]]


def test_images_are_upright() -> None:
    image = Image.new("RGB", (4, 3))
    exif = image.getexif()
    exif[0x0112] = 6  # the camera was held sideways
    assert read_image(_file(image, exif=exif)).size == (3, 4)


@pytest.mark.parametrize("content", [b"", b"not an image", _file(Image.new("RGB", (64, 64)))[:60]])
def test_what_is_no_image_is_refused(content: bytes) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        read_image(content)
    assert caught.value.code == "MS9206"


def _answer(folder: Path) -> Answer:
    return Answer(
        name="",
        target=Target(folder=folder),
        printer=TextPrinter(io.StringIO()),
        images=frozenset({"picture"}),
    )


def test_an_image_output_is_a_png_file(tmp_path: Path) -> None:
    answer = _answer(tmp_path)
    answer.value("picture", _pixels())
    answer.value("features", np.ones(3))
    answer.finished()
    assert [path.name for path in answer.written] == ["picture.png", "features.npy"]
    assert np.array_equal(
        np.asarray(Image.open(tmp_path / "picture.png")).transpose(2, 0, 1), _pixels()
    )


def test_several_images_are_numbered(tmp_path: Path) -> None:
    answer = _answer(tmp_path)
    for _ in range(2):
        answer.value("picture", _pixels())
    answer.finished()
    assert [path.name for path in answer.written] == ["picture-1.png", "picture-2.png"]

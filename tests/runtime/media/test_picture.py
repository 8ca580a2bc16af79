"""Pictures and films become the patches that `transformers` makes of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.media.film import Film, chosen_frames, film_blocks, read_film
from mstarc_runtime.media.picture import PatchLayout, fitting_size, picture_blocks
from tests.support.omni_media import write_media

transformers = pytest.importorskip("transformers")

LAYOUT = PatchLayout(patch=16, merge=2, depth=2, min_pixels=4096, max_pixels=65536)


def noise(width: int, height: int) -> Image.Image:
    random = np.random.default_rng(width)
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", [(64, 64), (150, 70), (1000, 37), (33, 500), (20, 20)])
def test_an_image_becomes_the_patches_of_transformers(size: tuple[int, int]) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    processor = Qwen2VLImageProcessorPil(
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size={"shortest_edge": LAYOUT.min_pixels, "longest_edge": LAYOUT.max_pixels},
    )
    made = picture_blocks(noise(*size), LAYOUT)
    expected = processor(images=[noise(*size)], return_tensors="pt")
    frames, lines, columns, _ = made.shape
    assert expected["image_grid_thw"].tolist() == [[frames, 2 * lines, 2 * columns]]
    assert made.dtype == torch.uint8
    patches = made.reshape(-1, 1536) / 127.5 - 1.0
    torch.testing.assert_close(patches, expected["pixel_values"], rtol=0, atol=1e-6)


def test_a_strip_is_refused() -> None:
    assert fitting_size(20, 20 * 200, LAYOUT)
    with pytest.raises(RuntimeFailure, match="too slim"):
        fitting_size(20, 20 * 200 + 1, LAYOUT)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_what_is_no_film_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        read_film(content)
    assert caught.value.code == "MS9206"


def test_two_frames_a_second_are_seen(tmp_path: Path) -> None:
    film = read_film((write_media(tmp_path) / "film.mp4").read_bytes())
    assert (len(film.frames), film.rate) == (4, 2.0)
    assert film_blocks(film, LAYOUT).shape[0] == 2


@pytest.mark.parametrize(
    ("total", "rate", "count", "taken"),
    [
        (1, 25.0, 1, 2.0),
        (3, 25.0, 2, 2.0),
        (25, 25.0, 4, 2.0),  # a second: four frames at the least
        (250, 25.0, 20, 2.0),
        (25 * 600, 25.0, 600, 1.0),  # ten minutes: every second one of 1200
        (25 * 3600, 25.0, 720, 0.2),
    ],
)
def test_a_long_film_is_seen_at_whole_multiples_of_the_time(
    total: int, rate: float, count: int, taken: float
) -> None:
    chosen, found = chosen_frames(total, rate)
    assert (len(chosen), found) == (count, taken)
    assert chosen == sorted(set(chosen))
    assert chosen[-1] < total


def test_a_last_frame_without_a_neighbour_stands_twice() -> None:
    pictures = tuple(noise(64, 64 + 0 * n) for n in range(3))
    made = film_blocks(Film(frames=pictures, rate=2.0), LAYOUT)
    assert made.shape[0] == 2
    first, second = made[1].unflatten(-1, (4, 3, 2, 16, 16)).unbind(4)
    assert torch.equal(first, second)

"""Arrays that a request has made, as a picture.

    python examples/draw.py build/seen/features.npy --cells 4 -o build/features.png
    python examples/draw.py build/acted/actions.npy -o build/actions.png

`--cells S`: features of frames, S x S rows each, side by side; a row's colour is where it lies
along the three directions in which all rows differ most. Without it: a line for each column.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

CELL = 24
WIDTH, HEIGHT, MARGIN = 640, 320, 16
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")


def cells(values: NDArray[np.float32], side: int) -> Image.Image:
    """Frames of `values` [.., D], `side` x `side` rows each."""
    rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
    centred = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    along = centred @ directions[:3].T
    scaled = (along - along.min(axis=0)) / np.maximum(np.ptp(along, axis=0), 1e-9)
    frames = (scaled * 255).astype(np.uint8).reshape(-1, side, side, 3)
    beside = np.concatenate([np.pad(frame, ((0, 0), (0, 1), (0, 0))) for frame in frames], axis=1)
    image = Image.fromarray(beside[:, :-1])
    return image.resize((image.width * CELL, image.height * CELL), Image.Resampling.NEAREST)


def lines(values: NDArray[np.float32]) -> Image.Image:
    """A line for each column of `values` [.., A]."""
    rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
    low, high = float(rows.min()), float(rows.max())
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    across = np.linspace(MARGIN, WIDTH - MARGIN, len(rows))
    for number, column in enumerate(rows.T):
        up = HEIGHT - MARGIN - (column - low) / max(high - low, 1e-9) * (HEIGHT - 2 * MARGIN)
        draw.line(list(zip(across, up, strict=True)), fill=COLOURS[number % len(COLOURS)], width=2)
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("array", type=Path)
    parser.add_argument("--cells", type=int, help="rows and columns of a frame")
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    values = np.load(given.array)
    image = lines(values) if given.cells is None else cells(values, given.cells)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    image.save(given.out)


if __name__ == "__main__":
    main()

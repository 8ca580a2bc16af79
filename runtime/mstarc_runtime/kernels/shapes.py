"""How each product of a decoding step is cut, by its kind, size and number of rows.

The numbers were measured on one H200 with the matrices of Llama 3.2 3B, each in a chain of its own
kind that no cache could hold (`benchmarks/decode_kernels.py --search` repeats it); beside each is
the share of the bus's 4.3 TB/s that it reached. Other sizes take the nearest shape that divides
them; what nothing divides has no shape, and its model runs without these kernels.
"""

from collections.abc import Iterator
from dataclasses import replace

from mstarc_runtime.kernels.kinds import GATE, LOGITS, PROJECT, RESIDUAL
from mstarc_runtime.kernels.skinny import Shape

_LONG = 4096
"""From how many columns on a residual product is a long one (`down`, not `o`)."""

_SHARED_BYTES = 220 << 10
"""Shared memory that a block may fill on a Hopper chip, less what the compiler needs beside it."""

Kind = object

_HELD = {
    (PROJECT, 2560, 1024): Shape(rows=4, columns=1024, warps=1),  # -1.0 of 24.7 µs
    (PROJECT, 5120, 2048): Shape(rows=4, columns=1024, warps=2),  # -0.6 of 40.5 µs
    (RESIDUAL, 1024, 2048): Shape(rows=4, columns=2048, warps=2),  # -0.6
    (RESIDUAL, 2048, 4096): Shape(rows=4, columns=4096, warps=4),  # -1.6 of 39.4 µs
}
"""One row's products of which a block asks for half or all its weights while the kernel before
ends, by kind, rows and columns of the matrix; beside each what that saves of a layer of
Qwen3-Omni's Talker and Thinker. Another may leave the kernel behind it no room to begin early: only
these are held."""


def shape_of(kind: Kind, *, inner: int, outer: int, batch: int) -> Shape | None:
    """The cut of a product with `inner` columns and `outer` rows of weights for `batch` rows; None
    where nothing divides it."""
    held = _HELD.get((kind, outer, inner)) if batch == 1 else None
    for found in (held, _several(kind, inner, outer, batch), _spread(kind, inner, outer, batch)):
        if found is not None:
            return found
    wanted = _wanted(kind, inner, batch)
    for shape in _nearest(wanted, batch):
        if inner % shape.step == 0:
            return shape if batch == 1 else _within_memory(shape, kind, batch)
    return None


def _within_memory(shape: Shape, kind: Kind, batch: int) -> Shape:
    """The shape with as many passes under way as a multiprocessor's shared memory holds."""
    rows = shape.rows * (2 if kind is GATE else 1) + max(16, 1 << (batch - 1).bit_length())
    a_pass = rows * shape.columns * 2
    return replace(shape, stages=max(2, min(shape.stages, _SHARED_BYTES // a_pass)))


def _wanted(kind: Kind, inner: int, batch: int) -> Shape:
    long = inner >= _LONG
    if batch == 1:
        if kind is PROJECT:
            return Shape(rows=4, columns=512, warps=1)  # 0.83
        if kind is GATE:
            return Shape(rows=2, columns=1024, warps=2)  # 1.01
        if kind is LOGITS:
            return Shape(rows=4, columns=512, warps=1)  # 1.04
        if long:
            return Shape(rows=2, columns=1024, warps=1)  # 0.91
        return Shape(rows=8, columns=1024, warps=4)  # 0.78
    few = batch <= 16
    if kind is PROJECT:
        if few:
            return Shape(rows=128, columns=128, split=3, stages=4, warps=4)  # 0.61
        return Shape(rows=16, columns=128, stages=6, warps=1)  # 0.59
    if kind is GATE:
        return Shape(rows=64, columns=128, stages=4, warps=4)  # 0.91, 0.89
    if kind is LOGITS:
        if few:
            return Shape(rows=128, columns=128, stages=3, warps=4)  # 0.98
        return Shape(rows=64, columns=128, stages=3, warps=4)  # 0.94
    assert kind is RESIDUAL, kind
    if long:
        if few:
            return Shape(rows=64, columns=64, split=4, stages=6, warps=4)  # 0.70
        return Shape(rows=64, columns=256, split=2, stages=3, warps=4)  # 0.64
    return Shape(rows=32, columns=256, stages=6, warps=2)  # 0.56, 0.48


def _several(kind: Kind, inner: int, outer: int, batch: int) -> Shape | None:
    """The cut for two to four rows without the tensor cores; None where these are no slower.

    Measured with the matrices of Llama 3.2 3B and of Qwen3-Omni's Thinker, Talker and predictor:
    beside each the µs, and those with the tensor cores.
    """
    if batch not in (2, 3, 4):
        return None
    for shape in _of_several(kind, inner, outer, batch):
        if inner % shape.step == 0:
            return shape
    return None


def _of_several(kind: Kind, inner: int, outer: int, batch: int) -> Iterator[Shape]:
    small = inner <= 1024
    if kind is PROJECT and batch == 2:
        if small:
            # 2560 x 1024: 3.0 for 4.7; 4096 x 1024: 3.7 for 5.0
            yield Shape(rows=2, columns=512, warps=1, held=2)
        # 5120 x 2048: 6.7 for 10.2; 5120 x 3072: 10.5 for 11.1
        yield Shape(rows=4, columns=512, warps=2, held=1)
    elif kind is PROJECT:
        if small:
            # 2560 x 1024: 3.7 for 4.6; 4096 x 1024: 4.2 for 5.1
            yield Shape(rows=4, columns=256, warps=1, held=1)
        if inner <= 2048:
            # 5120 x 2048: 7.6 for 10.2
            yield Shape(rows=4, columns=256, warps=1, held=4)
        # 5120 x 3072: 10.8 for 11.6
        yield Shape(rows=4, columns=256, warps=1, held=2)
    elif kind is GATE and small:
        if batch == 2:
            # 6144 x 1024: 4.5 for 6.7
            yield Shape(rows=8, columns=256, warps=4, held=2)
        if batch == 3:
            # 6144 x 1024: 4.7 for 6.7
            yield Shape(rows=2, columns=256, warps=1, held=2)
        # 6144 x 1024: 5.0 for 6.7
        yield Shape(rows=2, columns=256, warps=1, held=1)
    elif kind is GATE and batch == 2:
        # 16384 x 3072: 25.9 for 27.8
        yield Shape(rows=1, columns=512, warps=1, held=2)
    elif kind is GATE and batch == 3:
        # 16384 x 3072: 27.7 for 28.3. With four rows 29.4 for 27.2.
        yield Shape(rows=2, columns=256, warps=1, held=2)
    elif kind is LOGITS and small:
        # 2048 x 1024: 3.0 for 5.6, with two rows and with four
        yield Shape(rows=2, columns=512, warps=1, held=2)
    elif kind is LOGITS and batch == 2:
        # 28684 x 3072: 45.3 for 48.9; 152064 x 2048: 144.7 for 151.2
        yield Shape(rows=4, columns=256, warps=1, held=2)
    elif kind is LOGITS and batch == 3:
        # 28684 x 3072: 47.1 for 50.8; 152064 x 2048: 145.0 for 151.9. With four rows 48.7 for
        # 48.6 and 151.8 for 150.4.
        yield Shape(rows=4, columns=256, warps=1, held=4)
    elif kind is RESIDUAL:
        yield from _residuals_of_several(inner, outer, batch)


def _residuals_of_several(inner: int, outer: int, batch: int) -> Iterator[Shape]:
    if batch == 4 and 1024 < outer <= 2048:
        # 2048 x 4096: 7.1 for 9.4. Though the cut below takes 6.6: this one leaves few parts of
        # squares, so that twelve layers of the Thinker take 1.42 ms for 1.46.
        yield Shape(rows=16, columns=128, warps=8, held=4, spread=True)
    if outer <= 2048:
        if inner % 2048 == 0:
            # With two rows 1024 x 2048: 2.6 for 5.5; 2048 x 4096: 5.4 for 9.3.
            # With four 1024 x 2048: 3.8 for 5.4; 2048 x 4096: 6.6 for 9.4.
            yield Shape(rows=4, columns=1024, warps=4, held=2)
        # 1024 x 3072: 3.2 for 8.3, with four rows 3.7 for 7.9
        yield Shape(rows=4, columns=1024, warps=4, held=3)
        yield Shape(rows=4, columns=1024, warps=4, held=1)
    if batch == 2:
        # 3072 x 3072: 6.1 for 10.6; 3072 x 8192: 14.9 for 18.4
        yield Shape(rows=4, columns=1024, warps=4, held=1)
    # 3072 x 3072: 7.1 for 9.9; 3072 x 8192: 16.8 for 18.4, with three rows 17.2
    yield Shape(rows=4, columns=512, warps=2, held=2)


def _spread(kind: Kind, inner: int, outer: int, batch: int) -> Shape | None:
    """The cut with columns spread over a block's warps; None where that is no faster.

    Measured at eight rows; beside each the µs, and those without.
    """
    if not 4 < batch <= (16 if outer <= 1024 and inner >= 3072 else 8):
        return None
    shape = None
    if kind is RESIDUAL and inner <= 4096:
        # 1024 x 2048: 3.4 for 4.4; 1024 x 3072: 4.2 for 8.2, with sixteen rows 4.9 for 6.2;
        # 3072 x 3072: 7.8 for 9.7; 2048 x 4096: 7.5 for 9.2
        shape = Shape(rows=16, columns=128, warps=8, held=max(1, inner // 1024), spread=True)
    elif kind is GATE and inner <= 1024:
        # 6144 x 1024: 5.4 for 6.4
        shape = Shape(rows=8, columns=64, warps=4, held=4, spread=True)
    elif kind is not RESIDUAL and kind is not GATE and inner <= 1024:
        # 2560 x 1024: 3.5 for 4.7; 4096 x 1024: 4.3 for 5.0. Logits, 2048 x 1024: 3.3 for 5.7
        shape = Shape(rows=16, columns=128, warps=4, held=2, spread=True)
    return shape if shape is not None and inner % shape.step == 0 else None


def _nearest(shape: Shape, batch: int) -> Iterator[Shape]:
    """The shape itself, then others with fewer columns a pass and fewer blocks along them."""
    least = 32 if batch == 1 else 64
    for split in sorted({shape.split, 4, 2, 1}, key=lambda count: abs(count - shape.split)):
        if batch == 1 and split > 1:
            continue
        columns = shape.columns
        while columns >= least:
            yield replace(shape, split=split, columns=columns)
            columns //= 2

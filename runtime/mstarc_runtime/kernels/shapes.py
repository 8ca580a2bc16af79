"""How each product of a decoding step is cut, by its kind, size and number of rows.

The numbers were measured on one H200 with the matrices of Llama 3.2 3B, each in a chain of its own
kind that no cache could hold (`benchmarks/decode_kernels.py --search` repeats it); beside each is
the share of the bus's 4.3 TB/s that it reached. Other sizes take the nearest shape that divides
them; what nothing divides has no shape, and its model runs without these kernels.
"""

from collections.abc import Iterator
from dataclasses import replace

from mstarc_runtime.kernels.skinny import GATE, LOGITS, PROJECT, RESIDUAL, Shape

_LONG = 4096
"""From how many columns on a residual product is a long one (`down`, not `o`)."""

_SHARED_BYTES = 220 << 10
"""Shared memory that a block may fill on a Hopper chip, less what the compiler needs beside it."""

Kind = object


def shape_of(kind: Kind, *, inner: int, batch: int) -> Shape | None:
    """The cut of a product with `inner` columns for `batch` rows; None where nothing divides it."""
    wanted = _wanted(kind, inner, batch)
    for shape in _nearest(wanted, batch):
        if inner % (shape.split * shape.columns) == 0:
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

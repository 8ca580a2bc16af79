"""Which rows of a context a row of a call sees."""

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

MaskKind = Literal["causal", "full", "prefix", "frames"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """The mask of an op.

    - `causal`: rows before it and itself.
    - `full`, `prefix`: everything that was written before and all rows of the call. They differ in
      what is kept afterwards, which isn't the mask's concern.
    - `frames`: everything up to the end of its own frame of `frame_rows` rows.
    """

    kind: MaskKind
    frame_rows: int = 1

    def __post_init__(self) -> None:
        assert self.frame_rows >= 1, "a frame has at least one row"


CAUSAL = Mask(kind="causal")
FULL = Mask(kind="full")
PREFIX = Mask(kind="prefix")


def frames(rows: int) -> Mask:
    """The mask of frames of `rows` rows."""
    return Mask(kind="frames", frame_rows=rows)


def visible_rows(indices: NDArray[np.int64], length: int, mask: Mask) -> NDArray[np.bool_]:
    """bool[T, S]: which of a context's `length` rows the rows at `indices` i64[T] see."""
    match mask.kind:
        case "causal":
            ends = indices + 1
        case "full" | "prefix":
            ends = np.full_like(indices, length)
        case "frames":
            ends = (indices // mask.frame_rows + 1) * mask.frame_rows
        case _:
            assert_never(mask.kind)
    return np.arange(length) < ends[:, None]

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
    return np.arange(length) < _ends(indices, np.full_like(indices, length), mask)[:, None]


def see_all(indices: NDArray[np.int64], lengths: NDArray[np.int64], mask: Mask) -> bool:
    """Whether rows at `indices` i64[R] of contexts of `lengths` i64[R] see all that is there.

    A call of one whole frame at a context's end does: it needs no mask.
    """
    return bool((_ends(indices, lengths, mask) >= lengths).all())


def _ends(indices: NDArray[np.int64], lengths: NDArray[np.int64], mask: Mask) -> NDArray[np.int64]:
    """The first row that each row does not see."""
    match mask.kind:
        case "causal":
            return indices + 1
        case "full" | "prefix":
            return lengths
        case "frames":
            return (indices // mask.frame_rows + 1) * mask.frame_rows
        case _:
            assert_never(mask.kind)

"""Which rows of a context a row of a call sees."""

from dataclasses import dataclass
from typing import Literal

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

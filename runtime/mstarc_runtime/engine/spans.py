"""By how much the positions of contexts move in an op, of one context or of several."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Span = int | NDArray[np.int64] | None


def spans_of(spans: Sequence[Span], size: int) -> Span:
    """By how much positions move, context after context; all are told of it, or none."""
    known = [np.broadcast_to(span, size) for span in spans if span is not None]
    assert len(known) in (0, len(spans)), "positions of one op move alike"
    return np.concatenate(known) if known else None


def span_of(advance: int | Sequence[int] | None, contexts: int) -> Span:
    """By how much the positions of each key move, where a request has so many contexts."""
    if advance is None or isinstance(advance, int):
        return advance
    return np.repeat(np.array(advance, dtype=np.int64), contexts)

"""Streams of several values an item: a lane of its own for each value.

Before:  stream states : (h: bf16[8], media: bool) chunk fixed(1)
After:   rings `states.h` and `states.media`, written together, cut alike and read together

A mark or a close is set in all lanes of a stream, so that a chunk has as many rows in each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mstarc.ir.graph import Stream
from mstarc.ir.types import TensorType, TupleType


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One value of a stream's items; `field` is None where it is the item."""

    name: str
    field: str | None
    type: TensorType


def lanes_of(stream: Stream) -> tuple[Lane, ...]:
    """The lanes of a stream, in the order of its fields."""
    if isinstance(stream.item, TensorType):
        return (Lane(name=stream.name, field=None, type=stream.item),)
    assert isinstance(stream.item, TupleType)
    lanes = []
    for field, type_ in stream.item.fields:
        assert isinstance(type_, TensorType)
        lanes.append(Lane(name=f"{stream.name}.{field}", field=field, type=type_))
    return tuple(lanes)


def stream_of(lane: str) -> str:
    """The name of the stream that a lane belongs to."""
    return lane.partition(".")[0]


def streams_of(lanes: Sequence[str]) -> tuple[str, ...]:
    """The streams that lanes belong to, each once."""
    return tuple(dict.fromkeys(map(stream_of, lanes)))

"""One stream of a request: what was sent, and how far its reader is."""

from dataclasses import field
from typing import Any

from mstarc.ir.chunks import Chunk, Cursor, History, keeps_from
from mstarc.ir.graph import Policy, Stream
from mstarc.ir.interpret.toys import Fields
from mstarc.ir.types import OptionalType, TensorType, TupleType, Type
from mstarc.records import dataclass


@dataclass(slots=True, kw_only=True)
class Channel:
    """`policy` is that of the read under way. A stream that nobody reads (any more) takes all."""

    stream: Stream
    capacity: int | None
    is_read: bool
    history: History
    cursor: Cursor = field(default_factory=Cursor)
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self.policy = self.stream.policy

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more item."""
        if self.capacity is None or not self.is_read:
            return False
        held = len(self.history.items) - keeps_from(self.policy, self.cursor)
        return held >= self.capacity

    def handed_over(self, chunk: Chunk, policy: Policy) -> Any:
        """What the reader sees of a chunk: rows, or for `fixed(1)` the item itself."""
        end = chunk.offset + chunk.context + chunk.fresh
        items = self.history.items[chunk.offset : end]
        if policy.kind == "fixed" and policy.size == 1:
            return items[0]
        tail = self.stream.tail
        return rows(self.stream.item, [*items, *([tail.value if tail else None] * chunk.padding)])


def rows(item: Type, items: list[Any]) -> Any:
    """Items under a new first dim: a tuple, or a tuple in each field."""
    if isinstance(item, TupleType):
        return Fields(
            tuple(
                (name, tuple(one[name] if isinstance(one, Fields) else one for one in items))
                for name, _ in item.fields
            )
        )
    return tuple(items)


def items_of(item: Type, types: list[Type | None], values: list[Any]) -> list[Any]:
    """The items that a send hands over: one, or as many as the first dim of its values."""
    names: tuple[str, ...] = ()
    wanted: list[Type] = [item]
    if isinstance(item, TupleType) and not isinstance(values[0], Fields):
        names = tuple(name for name, _ in item.fields)
        wanted = [type_ for _, type_ in item.fields]
    many = [
        is_many(want, type_, value)
        for want, type_, value in zip(wanted, types, values, strict=True)
    ]
    if not any(many):
        return [Fields(tuple(zip(names, values, strict=True))) if names else values[0]]
    count = next(len(value) for value, several in zip(values, many, strict=True) if several)
    columns = [
        list(value) if several else [value] * count
        for value, several in zip(values, many, strict=True)
    ]
    if not names:
        return columns[0]
    return [Fields(tuple(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def is_many(item: Type, type_: Type | None, value: Any) -> bool:
    """Whether a value holds several items: its type has one dim more, or it is nested deeper."""
    if not isinstance(item, TensorType) or not isinstance(value, tuple):
        return False
    if isinstance(type_, OptionalType):
        type_ = type_.item
    if isinstance(type_, TensorType):
        return len(type_.dims) == len(item.dims) + 1
    return _depth(value) > len(item.dims)


def _depth(value: Any) -> int:
    if not isinstance(value, tuple):
        return 0
    return 1 + (_depth(value[0]) if value else 0)

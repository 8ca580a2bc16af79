"""What generated ranks see and hold, over toy values: batches, jobs, registers, rings.

A batch has one row and its dim is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mstarc.ir.chunks import Chunk, Closed, Cursor, History, Marked, next_event, next_item
from mstarc.ir.graph import Policy, Tail
from mstarc_runtime import plan_api
from tests.support.toy_rows import Row, plain

if TYPE_CHECKING:
    from tests.support.toy_parts import ToyPasses
    from tests.support.toy_ranks import ToyRequest


@dataclass(slots=True, kw_only=True)
class ToyBatch:
    """The one row of a step. `allowed`: the bound lets another pass run."""

    request: "ToyRequest"
    allowed: bool
    went_on: bool | None = None
    sent: dict[str, int] = field(default_factory=dict)
    together: dict[str, int] = field(default_factory=dict)

    def more(self, condition: Any) -> Row:
        self.went_on = bool(plain(condition)) and self.allowed
        return Row(self.went_on)

    def emit(self, output: str, value: Any, where: Any = None) -> None:
        if where is None or plain(where):
            self.request.emit(output, plain(value))

    def hand_over(self, output: str, values: "Kept", where: Any = None) -> None:
        if where is None or plain(where):
            self.request.emit(output, values.value())

    def option(self, name: str) -> Row:
        return Row(self.request.options[name])

    def chosen(self, name: str, passes: "ToyPasses | None" = None) -> list[int]:
        entry = self.request.options[name]
        return [entry if passes is None else entry[passes.number(0)]]

    def count(self, name: str, index: int | None = None) -> int:
        value = self.request.options[name]
        return int(value if index is None else value[index])

    def full(self, value: Any, dtype: str) -> Row:
        assert dtype in ("i64", "f32", "bool")
        return Row(value)

    def alike(self, value: Any, number: Any, dtype: str, *, dims: int) -> Row:
        return Row((number,) * len(plain(value)))

    def some(self, value: Any) -> plan_api.Maybe:
        return plan_api.Maybe(value, Row(True))

    def maybe(self, value: Any, there: Any) -> plan_api.Maybe:
        return plan_api.Maybe(value, there)

    def none(self, dtype: str, dims: tuple[int, ...]) -> plan_api.Maybe:
        return plan_api.Maybe(Row(0), Row(False))

    def stacked(self, constant: Any) -> Row:
        return Row(plain(constant))

    def packed(self, constant: Any) -> Row:
        return Row(plain(constant))


@dataclass(slots=True, kw_only=True)
class ToyJob:
    """The request at a host step."""

    request: "ToyRequest"
    slot: int = 0

    @property
    def options(self) -> Mapping[str, Any]:
        return self.request.options

    def input(self, name: str) -> Any:
        return self.request.inputs[name]

    def emit(self, output: str, value: Any) -> None:
        self.request.emit(output, value)


class Kept:
    """A register, one object a slot, or a collector."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: list[Any] = []

    def value(self) -> Any:
        assert self.held, f"{self.name} is read before it is set"
        return self.held[0]

    def take(self, batch: ToyBatch) -> Row:
        return Row(self.value())

    pack = stack = take

    def get(self, job: ToyJob) -> Any:
        return self.value()

    def put(self, batch: ToyBatch, value: Any) -> None:
        self.held = [plain(value)]

    def set(self, job: ToyJob, value: Any) -> None:
        self.held = [plain(value)]

    def lengths(self, batch: ToyBatch, axis: int = 0) -> list[int]:
        value = self.value()
        return [len(value[0] if axis else value)]

    def numbers(self, batch: ToyBatch) -> list[int]:
        assert isinstance(self.value(), int)
        return [self.value()]

    def reset(self, batch: ToyBatch) -> None:
        self.held = [()]

    def append(self, batch: ToyBatch, value: Any) -> None:
        self.held = [(*self.value(), plain(value))]

    def release(self, slot: int) -> None:
        self.held = []


class ToyRing:
    """A stream, whose chunks are those of the language's meaning."""

    def __init__(self, name: str, policy: plan_api.Policy, item: tuple[int, ...]) -> None:
        self.name = name
        self.dims = item
        self.policy = policy
        self.pulled = plan_api.Maybe(Row(0), Row(False))
        self.history = History()
        self.cursor = Cursor()
        self.chunk_items: Any = None

    def append(self, batch: ToyBatch, value: Any, where: Any = None, ends: Any = None) -> None:
        if where is None or plain(where):
            content, last = plain(value), plain(ends)
            several = isinstance(content, tuple) and self.dims[:1] != (len(content),)
            # Three rows of three look like one: as many as went to the stream's other ring.
            stream, _, field = self.name.partition(".")
            if field and isinstance(content, tuple):
                several = several or batch.together.get(stream, 1) == len(content)
            items = content if several else (content,)
            marks = last if isinstance(last, tuple) else (bool(last),) * len(items)
            self.history.items.extend(zip(items, marks, strict=True))
            batch.sent[self.name] = batch.sent.get(self.name, 0) + len(items)
            batch.together[stream] = len(items)

    def is_last(self, cut: plan_api.Cut | None = None) -> str:
        """Whether the next chunk is the `last`, or it `waits` for that to be known."""
        cursor, held = self.cursor, self.chunk_items
        events = [self.next(cut)]
        if isinstance(events[0], Chunk):
            events.append(self.next(cut))
        self.cursor, self.chunk_items = cursor, held
        if None in events:
            return "waits"
        return "last" if events[1:] == ["drained"] else "goes on"

    def next(self, cut: plan_api.Cut | None = None) -> Chunk | str | None:
        """The next chunk, `drained`, or none yet."""
        given = self.policy if cut is None else cut.policy
        policy = Policy(
            kind=given.kind,
            size=given.size,
            stride=given.stride,
            context=given.context,
            ramp=given.ramp,
        )
        pad: Any = given.pad
        tail = None if given.tail is None else Tail(kind=given.tail, value=pad)
        until = None if cut is None else cut.until
        event: Any = None
        while not isinstance(event, Chunk):
            found = next_event(
                policy, tail, self.cursor, self.history, stops=lambda item: bool(item[1])
            )
            if found is None:
                return None
            event, self.cursor = found
            if isinstance(event, Closed) or (isinstance(event, Marked) and event.mark == until):
                return "drained"
        end = event.offset + event.context + event.fresh
        items = [value for value, _ in self.history.items[event.offset : end]]
        items += [tail.value if tail else None] * event.padding
        single = policy.kind == "fixed" and policy.size == 1
        self.chunk_items = items[0] if single else tuple(items)
        return event

    def pull(self) -> bool:
        """Whether the next item, or that there is none, is known; it is taken then."""
        found = next_item(self.cursor, self.history)
        if found is None:
            return False
        event, self.cursor = found
        there = isinstance(event, Chunk)
        value = self.history.items[event.offset][0] if isinstance(event, Chunk) else 0
        self.pulled = plan_api.Maybe(Row(value), Row(there))
        return True

    def item(self, batch: ToyBatch) -> Row:
        assert plain(self.pulled.there), f"{self.name} is closed"
        return Row(plain(self.pulled.value))

    def item_or_none(self, batch: ToyBatch) -> plan_api.Maybe:
        return self.pulled

    def window(self, batch: ToyBatch) -> Row:
        return Row(self.chunk_items)

    pack = window

    def lengths(self, batch: ToyBatch) -> list[int]:
        return [len(self.chunk_items)]

    def chunk(self, job: ToyJob) -> Any:
        return self.chunk_items

    def release(self, slot: int) -> None:
        self.history = History()


class ToyOutbox:
    """The way to a ring that another rank declares, perhaps later."""

    def __init__(self, request: "ToyRequest", name: str) -> None:
        self.request = request
        self.name = name

    def append(self, *arguments: Any, **settings: Any) -> None:
        self.request.rings[self.name].append(*arguments, **settings)

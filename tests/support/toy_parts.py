"""What generated ranks hold and call, over toy values: batches, rings, registers, nodes.

A batch has one row and its dim is left out.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mstarc.ir.chunks import Chunk, Closed, Cursor, History, Marked, next_event, next_item
from mstarc.ir.graph import Node, Policy, Tail
from mstarc.ir.interpret.evaluate import cut
from mstarc.ir.interpret.toys import Rows, digest, extents_of, sizes_of
from mstarc_runtime import plan_api

if TYPE_CHECKING:
    from tests.support.toy_ranks import ToyRequest


class Row:
    """A value of the one row, with a tensor's operators."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> "Row":  # type: ignore[override]
        return self._each(other, operator.eq)

    def __ne__(self, other: object) -> "Row":  # type: ignore[override]
        return self._each(other, operator.ne)

    def __lt__(self, other: object) -> "Row":
        return self._each(other, operator.lt)

    def __gt__(self, other: object) -> "Row":
        return self._each(other, operator.gt)

    def __le__(self, other: object) -> "Row":
        return self._each(other, operator.le)

    def __ge__(self, other: object) -> "Row":
        return self._each(other, operator.ge)

    def __add__(self, other: object) -> "Row":
        return self._each(other, operator.add)

    __radd__ = __add__

    def __mul__(self, other: object) -> "Row":
        return self._each(other, operator.mul)

    __rmul__ = __mul__

    def __sub__(self, other: object) -> "Row":
        return self._each(other, operator.sub)

    def __and__(self, other: object) -> "Row":
        return self._each(other, lambda a, b: bool(a) and bool(b))

    def __or__(self, other: object) -> "Row":
        return self._each(other, lambda a, b: bool(a) or bool(b))

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> "Row":
        if isinstance(self.value, tuple):
            return Row(tuple(not item for item in self.value))
        return Row(not self.value)

    def _each(self, other: object, function: Callable[[Any, Any], Any]) -> "Row":
        """A function of numbers; of several, of each."""
        a, b = self.value, plain(other)
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            return Row(function(a, b))
        count = len(a if isinstance(a, tuple) else b)
        ones = a if isinstance(a, tuple) else (a,) * count
        others = b if isinstance(b, tuple) else (b,) * count
        return Row(tuple(map(function, ones, others)))

    def __getitem__(self, axes: Any) -> "Row":
        first, *rest = axes
        assert first == slice(None), "the first axis is the batch"
        ends = [(a.start, a.stop) if isinstance(a, slice) else a for a in rest]
        return Row(cut(self.value, ends))

    __hash__ = None  # type: ignore[assignment]


def plain(value: Any) -> Any:
    """What a row holds; of a value that may be none, the value or None."""
    if isinstance(value, plan_api.Maybe):
        return plain(value.value) if plain(value.there) else None
    return value.value if isinstance(value, Row) else value


class ToyOps:
    """Shape functions."""

    def isin(self, value: Any, items: Any) -> Row:
        many = plain(value)
        if isinstance(many, tuple):
            return Row(tuple(item in plain(items) for item in many))
        return Row(many in plain(items))

    def stack(self, *values: Any) -> Row:
        return Row(tuple(map(plain, values)))

    def concat(self, *values: Any) -> Row:
        parts = [v if isinstance(v, tuple) else (v,) for v in map(plain, values)]
        return Row(tuple(item for part in parts for item in part))

    def pick(self, value: Any, axis: int, index: Any) -> Row:
        return Row(cut(plain(value), [(None, None)] * (axis - 1) + [plain(index)]))

    def window(self, value: Any, axis: int, start: Any, length: int) -> Row:
        first = plain(start)
        return Row(cut(plain(value), [(None, None)] * (axis - 1) + [(first, first + length)]))

    def repeat(self, value: Any, times: int) -> Row:
        assert isinstance(times, int)
        return Row((plain(value),) * times)


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


def one_of(index: Any) -> int:
    """The index of the one request."""
    return index if isinstance(index, int) else int(index[0])


def entries_of(given: list[Any], over: tuple[str, ...], at: int) -> list[Any]:
    """The arguments of a call on one context of an array."""
    return [v[at] if o.startswith("each") else v for v, o in zip(given, over, strict=True)]


class ToyNode:
    """Ops whose results depend on all that they saw; its contexts live on its rank."""

    def __init__(self, node: Node, request: "ToyRequest") -> None:
        self.node = node
        self.toys = request.toys
        self.request = request
        self.arrays: dict[str, int] = {}
        self.chosen: dict[str, int | None] = {}
        self.contexts: dict[str, Rows] = {}
        self.state: list[int] = []
        self.drawn: dict[str, int] = {}
        self.room: dict[str, int] = {}

    def grow(
        self,
        batch: ToyBatch,
        rows: Any,
        context: str | None = None,
        advance: Any = None,
        index: Any = None,
        what: str = "",
    ) -> None:
        self.chosen[context or self.first] = None if index is None else one_of(index)
        count = rows if isinstance(rows, int) else sum(rows)
        for name in self.named(context or self.first, index):
            self.room[f"{what}{name}"] = self.room.get(f"{what}{name}", 0) + count

    def peek(
        self,
        batch: ToyBatch,
        rows: Any,
        context: str | None = None,
        advance: Any = None,
        index: Any = None,
    ) -> None:
        self.grow(batch, rows, context, advance, index, what="peek ")

    def fork(
        self,
        batch: ToyBatch,
        source: str,
        target: str,
        source_index: Any = None,
        target_index: Any = None,
    ) -> None:
        sources, targets = self.named(source, source_index), self.named(target, target_index)
        sources = sources * len(targets) if len(sources) == 1 else sources
        for one, other in zip(sources, targets, strict=True):
            self.contexts[other] = Rows(list(self.contexts.setdefault(one, Rows()).rows))

    def move(self, what: str, target: "ToyNode") -> None:
        """What a hop takes along: a context that is here, or what a sampler has drawn."""
        if what.startswith("sampler:"):
            name = what.removeprefix("sampler:")
            if name in self.drawn:
                target.drawn[name] = self.drawn.pop(name)
            return
        for name in self.named(what):
            rows = self.contexts.pop(name, Rows())
            if rows.rows:
                target.contexts[name] = rows

    def clear(self, batch: ToyBatch, context: str, index: Any = None) -> None:
        for name in self.named(context, index):
            self.contexts[name] = Rows()

    def named(self, context: str, index: Any = None) -> list[str]:
        """A context, one of an array, or all of an array."""
        if context not in self.arrays:
            assert index is None
            return [context]
        if index is None:
            return [f"{context}[{at}]" for at in range(self.arrays[context])]
        assert 0 <= one_of(index) < self.arrays[context]
        return [f"{context}[{one_of(index)}]"]

    @property
    def first(self) -> str:
        return self.node.contexts[0].name if self.node.contexts else "main"

    def release(self, slot: int) -> None:
        self.contexts = {}

    def __getattr__(self, name: str) -> Any:
        op = next((op for op in self.node.ops if op.name == name), None)
        if op is None:
            raise AttributeError(name)

        def call(
            *arguments: Any, context: str | None = None, over: Any = None, rows: Any = ()
        ) -> Any:
            device = self.node.engine != "host"
            given = [plain(argument) for argument in (arguments[1:] if device else arguments)]
            if over is None:
                results = one(given, context, self.chosen.get(context or self.first))
            else:
                assert context is not None
                each = [
                    one(entries_of(given, over, at), context, at)
                    for at in range(self.arrays[context])
                ]
                results = [tuple(column) for column in zip(*each, strict=True)]
            wrapped = [Row(value) if device else value for value in results]
            return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

        def one(given: list[Any], context: str | None, index: int | None) -> list[Any]:
            def meant(name: str) -> str:
                name = context or name if name == self.first else name
                return f"{name}[{index}]" if name in self.arrays else name

            written, seen = list(map(meant, op.writes)), list(map(meant, op.reads))
            held = [tuple(self.contexts.setdefault(c, Rows()).rows) for c in (*written, *seen)]
            state = self.state if op.stateful else []
            seed = digest(self.node.name, op.name, given, held, state)
            sizes = sizes_of(op, given)
            if op.stateful:
                self.state.append(seed)
            if op.sampler is not None:
                self.request.draw(self, op.sampler)
            cross = {c.name for c in self.node.contexts if c.cross is not None}
            count = max(sizes.values(), default=1)
            for name in written:
                self.contexts[name].append(digest(seed, name, i) for i in range(count))
            for name in written or [f"peek {name}" for name in seen]:
                if name.removeprefix("peek ") not in cross:
                    self.room[name] = self.room.get(name, 0) - count
                    assert self.room[name] >= 0, f"{self.node.name}.{op.name} has no room"
            extents = extents_of(op, given, self.request.options, seed)
            return [
                self.toys.value(result.type, digest(seed, at), extents)
                for at, result in enumerate(op.results)
            ]

        return call


class ToyPasses:
    """Which pass of a loop the request is in."""

    def __init__(self, request: "ToyRequest", name: str) -> None:
        self.request = request
        self.name = name

    def number(self, slot: int) -> int:
        return self.request.passes[self.name]

    def count(self, batch: ToyBatch) -> int:
        return self.request.passes[self.name]

    def index(self, batch: ToyBatch) -> Row:
        return Row(self.request.passes[self.name])


class ToyTable:
    """Entries that admission has computed."""

    def __init__(self, request: "ToyRequest", name: str, capacity: int) -> None:
        self.entries = request.options[name]
        assert len(self.entries) <= capacity

    def at(self, batch: ToyBatch, index: Any) -> Row:
        behind = len(self.entries)
        return Row(0 if plain(index) == behind else self.entries[plain(index)])


class ToyBuilder:
    """Makes toys for what a rank declares."""

    def __init__(self, request: "ToyRequest") -> None:
        self.request = request
        self.kept: dict[str, Kept] = {}
        self.nodes: dict[str, ToyNode] = {}
        self.passing: dict[str, ToyNode] = {}

    def node(self, name: str, *, arrays: Any = None, **_: Any) -> ToyNode:
        made = self.nodes.setdefault(name, ToyNode(self.request.nodes[name], self.request))
        made.arrays = {
            context: self.request.options.get(array.count, array.count)
            for context, array in (arrays or {}).items()
        }
        return made

    kv_cache = stateless = host = node

    def holder(self, name: str) -> ToyNode:
        """A node of the rank, or a place for contexts that only pass through."""
        return self.nodes.get(name) or self.passing.setdefault(
            name, ToyNode(self.request.nodes[name], self.request)
        )

    def ring(
        self,
        name: str,
        *,
        item: tuple[int, ...],
        policy: plan_api.Policy,
        capacity: int,
        **_: Any,
    ) -> ToyRing:
        assert capacity >= policy.size
        return self.request.ring(name, policy, item)

    def outbox(self, name: str, *, rank: int, **_: Any) -> "ToyOutbox":
        return ToyOutbox(self.request, name)

    def keep(self, name: str, *_: Any, **__: Any) -> Kept:
        return self.kept.setdefault(name, Kept(name))

    register = values = collector = keep

    def constant(self, name: str, dtype: str, value: Any) -> Row:
        return Row(value)

    def table(self, name: str, dtype: str, *, capacity: int) -> ToyTable:
        return ToyTable(self.request, name, capacity)

    def loop(self, loop: plan_api.Loop) -> ToyPasses:
        self.request.loops[loop.name] = loop
        return ToyPasses(self.request, loop.name)

"""What generated ranks declare and call, over toy values: nodes, passes, tables, and a builder."""

from typing import TYPE_CHECKING, Any

from mstarc.ir.graph import Node
from mstarc.ir.interpret.toys import Rows, digest, extents_of, sizes_of
from mstarc_runtime import plan_api
from tests.support.toy_batch import Kept, ToyBatch, ToyOutbox, ToyRing
from tests.support.toy_rows import Row, plain

if TYPE_CHECKING:
    from tests.support.toy_ranks import ToyRequest


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
            *arguments: Any,
            context: str | None = None,
            over: Any = None,
            rows: Any = (),
            contexts: Any = (),
        ) -> Any:
            if contexts:
                each = [call(*arguments, context=each) for each in contexts]
                return tuple(v for one in each for v in (one if type(one) is tuple else (one,)))
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
                    has_room = self.room.get(name, 0) >= count
                    assert has_room, f"{self.node.name}.{op.name} has no room"
                    # Rows that do not stay make room for the next call's.
                    self.room[name] -= count if written else 0
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

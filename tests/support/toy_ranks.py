"""Run generated ranks over toy values, one request at a time, as `mstarc.ir.interpret` would.

The same toy ops stand behind both, so a plan that means what its program means gives the same
tokens. A batch has one row and its dim is left out; a hop takes away what it does not carry, so
that a forgotten value is an error and not an old one.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any

from mstarc.ir.chunks import Chunk, Closed, Cursor, History, Marked, next_event, next_item
from mstarc.ir.graph import Node, Policy, Program, Stream, Tail
from mstarc.ir.interpret.toys import Fields, Rows, Toys, digest, landmarks, sizes_of
from mstarc.ir.types import TupleType
from mstarc.plan.lanes import lanes_of
from mstarc_runtime import plan_api


class Row:
    """A value of the one row, with a tensor's operators."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> "Row":  # type: ignore[override]
        return Row(self.value == plain(other))

    def __ne__(self, other: object) -> "Row":  # type: ignore[override]
        return Row(self.value != plain(other))

    def __lt__(self, other: object) -> "Row":
        return Row(self.value < plain(other))

    def __gt__(self, other: object) -> "Row":
        return Row(self.value > plain(other))

    def __add__(self, other: object) -> "Row":
        return Row(self.value + plain(other))

    __radd__ = __add__

    def __sub__(self, other: object) -> "Row":
        return Row(self.value - plain(other))

    def __and__(self, other: object) -> "Row":
        return Row(bool(self.value) and bool(plain(other)))

    def __or__(self, other: object) -> "Row":
        return Row(bool(self.value) or bool(plain(other)))

    def __invert__(self) -> "Row":
        return Row(not self.value)

    def __getitem__(self, axes: Any) -> "Row":
        first, axis = axes
        assert first == slice(None), "the first axis is the batch"
        return Row(self.value[axis])

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


@dataclass(slots=True, kw_only=True)
class ToyBatch:
    """The one row of a step. `allowed`: the bound lets another pass run."""

    request: "ToyRequest"
    allowed: bool
    went_on: bool | None = None
    sent: dict[str, int] = field(default_factory=dict)

    def more(self, condition: Any) -> Row:
        self.went_on = bool(plain(condition)) and self.allowed
        return Row(self.went_on)

    def emit(self, output: str, value: Any, where: Any = None) -> None:
        if where is None or plain(where):
            self.request.emit(output, plain(value))

    def option(self, name: str) -> Row:
        return Row(self.request.options[name])

    def full(self, value: Any, dtype: str) -> Row:
        assert dtype in ("i64", "f32", "bool")
        return Row(value)

    def alike(self, value: Any, number: Any, dtype: str, *, dims: int) -> Row:
        return Row((number,) * len(plain(value)))

    def some(self, value: Any) -> plan_api.Maybe:
        return plan_api.Maybe(value, Row(True))

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

    def lengths(self, batch: ToyBatch) -> list[int]:
        return [len(self.value())]

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
        self.item = item
        self.policy = policy
        self.pulled = plan_api.Maybe(Row(0), Row(False))
        self.history = History()
        self.cursor = Cursor()
        self.chunk_items: Any = None

    def append(self, batch: ToyBatch, value: Any, where: Any = None, ends: Any = None) -> None:
        if where is None or plain(where):
            content, last = plain(value), plain(ends)
            several = isinstance(content, tuple) and self.item[:1] != (len(content),)
            items = content if several else (content,)
            marks = last if isinstance(last, tuple) else (bool(last),) * len(items)
            self.history.items.extend(zip(items, marks, strict=True))
            batch.sent[self.name] = batch.sent.get(self.name, 0) + len(items)

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


class ToyNode:
    """Ops whose results depend on all that they saw; its contexts live on its rank."""

    def __init__(self, node: Node, toys: Toys) -> None:
        self.node = node
        self.toys = toys
        self.contexts: dict[str, Rows] = {}
        self.state: list[int] = []
        self.room: dict[str, int] = {}

    def grow(
        self, batch: ToyBatch, rows: Any, context: str | None = None, advance: Any = None
    ) -> None:
        name = context or self.first
        count = rows if isinstance(rows, int) else sum(rows)
        self.room[name] = self.room.get(name, 0) + count

    def peek(self, batch: ToyBatch, rows: Any, context: str | None = None) -> None:
        name = f"peek {context or self.first}"
        count = rows if isinstance(rows, int) else sum(rows)
        self.room[name] = self.room.get(name, 0) + count

    def fork(self, batch: ToyBatch, source: str, target: str) -> None:
        rows = self.contexts.setdefault(source, Rows()).rows
        self.contexts[target] = Rows(list(rows))

    def clear(self, batch: ToyBatch, context: str) -> None:
        self.contexts[context] = Rows()

    @property
    def first(self) -> str:
        return self.node.contexts[0].name if self.node.contexts else "main"

    def release(self, slot: int) -> None:
        self.contexts = {}

    def __getattr__(self, name: str) -> Any:
        op = next((op for op in self.node.ops if op.name == name), None)
        if op is None:
            raise AttributeError(name)

        def call(*arguments: Any, context: str | None = None) -> Any:
            device = self.node.engine != "host"
            given = [plain(argument) for argument in (arguments[1:] if device else arguments)]

            def meant(name: str) -> str:
                return context or name if name == self.first else name

            written, seen = list(map(meant, op.writes)), list(map(meant, op.reads))
            held = [tuple(self.contexts.setdefault(c, Rows()).rows) for c in (*written, *seen)]
            state = self.state if op.stateful else []
            seed = digest(self.node.name, op.name, given, held, state)
            sizes = sizes_of(op, given)
            if op.stateful:
                self.state.append(seed)
            cross = {c.name for c in self.node.contexts if c.cross is not None}
            count = max(sizes.values(), default=1)
            for name in written:
                self.contexts[name].append(digest(seed, name, i) for i in range(count))
            for name in written or [f"peek {name}" for name in seen]:
                if name.removeprefix("peek ") not in cross:
                    self.room[name] = self.room.get(name, 0) - count
                    assert self.room[name] >= 0, f"{self.node.name}.{op.name} has no room"
            results = [
                self.toys.value(result.type, digest(seed, index), sizes)
                for index, result in enumerate(op.results)
            ]
            wrapped = [Row(value) if device else value for value in results]
            return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

        return call


class ToyPasses:
    """Which pass of a loop the request is in."""

    def __init__(self, request: "ToyRequest", name: str) -> None:
        self.request = request
        self.name = name

    def number(self, slot: int) -> int:
        return self.request.passes[self.name]

    def index(self, batch: ToyBatch) -> Row:
        return Row(self.request.passes[self.name])


class ToyTable:
    """Entries that admission has computed."""

    def __init__(self, request: "ToyRequest", name: str, capacity: int) -> None:
        self.entries = request.options[name]
        assert len(self.entries) <= capacity

    def at(self, batch: ToyBatch, index: Any) -> Row:
        return Row(self.entries[plain(index)])


class ToyBuilder:
    """Makes toys for what a rank declares."""

    def __init__(self, request: "ToyRequest") -> None:
        self.request = request
        self.kept: dict[str, Kept] = {}
        self.nodes: dict[str, ToyNode] = {}

    def node(self, name: str, **_: Any) -> ToyNode:
        made = ToyNode(self.request.nodes[name], self.request.toys)
        return self.nodes.setdefault(name, made)

    kv_cache = stateless = host = node

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


class ToyRequest:
    """One request over all ranks of a placement."""

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Any],
        wants: Collection[str],
        admission: Any,
    ) -> None:
        self.nodes = {node.name: node for node in program.nodes}
        self.toys = Toys(landmarks(program))
        self.inputs = inputs
        self.wants = wants
        self.options: Mapping[str, Any] = admission.options
        self.bounds: Mapping[str, int] = admission.bounds
        self.emits: dict[str, list[Any]] = {output.name: [] for output in program.outputs}
        self.rings: dict[str, ToyRing] = {}
        self.loops: dict[str, plan_api.Loop] = {}
        self.passes: dict[str, int] = {}

    def ring(self, name: str, policy: plan_api.Policy, item: tuple[int, ...]) -> ToyRing:
        if name not in self.rings:
            self.rings[name] = ToyRing(name, policy, item)
        return self.rings[name]

    def emit(self, output: str, value: Any) -> None:
        if output in self.wants:
            self.emits[output].append(value)


@dataclass(slots=True, kw_only=True)
class Ranks:
    """The ranks of a placement, built, with every step's rank and function."""

    request: ToyRequest
    ranks: list[Any]
    builders: list[ToyBuilder]
    steps: dict[int, tuple[int, Any]]

    def machine(self, start: int) -> Iterator[str]:
        """Run a machine; says after every step whether it waits."""
        here: int | None = start
        while here is not None:
            rank, step = self.steps[here]
            match step:
                case plan_api.DoneStep(closes=closes):
                    for name in closes:
                        self.request.rings[name].history.closed = True
                    here = None
                case plan_api.HopStep():
                    here = self.hop(rank, step)
                case plan_api.BranchStep(test=test, yes=yes, no=no):
                    here = self.target(yes if test(self.ranks[rank], 0) else no, None)
                case plan_api.MarkStep(streams=streams, mark=mark, then=then):
                    for name in streams:
                        history = self.request.rings[name].history
                        history.marks.append((len(history.items), mark))
                    here = then
                case _:
                    drained = False
                    for name in step.reads:
                        while (event := self.request.rings[name].next(step.cut)) is None:
                            yield "waits"
                        drained = drained or event == "drained"
                    for name in getattr(step, "pulls", ()):
                        while not self.request.rings[name].pull():
                            yield "waits"
                    here = step.drained if drained else self.run(rank, step)
            yield "goes on"

    def run(self, rank: int, step: Any) -> int:
        if isinstance(step, plan_api.HostStep):
            step.run(self.ranks[rank], ToyJob(request=self.request))
            return self.target(step.then, None)
        allowed = True
        if not isinstance(step.then, int):
            allowed = self.passes_behind(step.then) < self.request.bounds[step.then.loop]
        batch = ToyBatch(request=self.request, allowed=allowed)
        if step.prepare is not None:
            step.prepare(self.ranks[rank], batch)
        step.run(self.ranks[rank], batch)
        most = dict(step.sends)
        assert all(count <= most[name] for name, count in batch.sent.items()), step.name
        return self.target(step.then, batch)

    def target(self, target: Any, batch: ToyBatch | None) -> int:
        if isinstance(target, int):
            return target
        loop = self.request.loops[target.loop]
        self.request.passes[loop.name] = self.passes_behind(target)
        goes_on = self.request.passes[loop.name] < self.request.bounds[loop.bound]
        if loop.tested:
            assert batch is not None
            assert batch.went_on is not None, f"nothing tests {loop.name}"
            goes_on = batch.went_on
        first: int = target.first
        otherwise: int = target.otherwise
        return first if goes_on else otherwise

    def passes_behind(self, target: Any) -> int:
        """The passes that have run when a step is behind that leads into a loop, or back."""
        again = isinstance(target, plan_api.Again)
        return self.request.passes[target.loop] + 1 if again else 0

    def hop(self, rank: int, step: plan_api.HopStep) -> int:
        """Carry the values over; what is left behind of the machine is lost."""
        source, target = self.builders[rank].kept, self.builders[step.rank].kept
        there = self.steps[step.step][1]
        done = isinstance(there, plan_api.DoneStep)
        machine = there.machine if done else there.name.split(".")[0]
        for name in step.values:
            target[name].held = list(source[name].held)
        for name, kept in source.items():
            if name.startswith(f"{machine}_"):
                kept.held = []
        return step.step


@contextmanager
def plan_package(files: Mapping[str, str]) -> Iterator[Any]:
    """`mstarc_plan.messages` and `.machines` of a plan, while the context lasts."""
    names = ("mstarc_plan", "mstarc_plan.messages", "mstarc_plan.machines")
    before = {name: sys.modules.get(name) for name in names}
    try:
        sys.modules["mstarc_plan"] = ModuleType("mstarc_plan")
        for name in names[1:]:
            sys.modules[name] = module(name, files[f"{name.partition('.')[2]}.py"])
        yield sys.modules["mstarc_plan.messages"], sys.modules["mstarc_plan.machines"]
    finally:
        for name, old in before.items():
            if old is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = old


def module(name: str, text: str) -> ModuleType:
    """A module of a text."""
    made = ModuleType(name)
    sys.modules[name] = made
    exec(compile(text, f"{name}.py", "exec"), made.__dict__)
    return made


def run_plan(
    files: Mapping[str, str],
    placement: str,
    program: Program,
    *,
    inputs: Mapping[str, Any],
    options: Mapping[str, Any],
    wants: frozenset[str] | None = None,
    order: Random,
) -> tuple[dict[str, tuple[Any, ...]], dict[str, list[Any]]]:
    """What a request gets from a plan's ranks: values by output, and items by stream."""
    with plan_package(files) as (messages, machines):
        wanted = {} if wants is None else {"wants": wants}
        given = {name: as_given(value) for name, value in inputs.items()}
        message = messages.Request(**given, **options, **wanted)
        machines.check(message)
        admission = machines.admit(message)
        request = ToyRequest(program, given, message.wants, admission)
        modules = [
            module(f"toy_rank{name}", files[name])
            for name in sorted(files)
            if name.startswith(f"placements/{placement}/rank")
        ]
        made, builders = [], []
        for loaded in modules:
            rank = loaded.RANK()
            rank.ops, rank.options = ToyOps(), lambda slot: request.options
            builder = ToyBuilder(request)
            rank.build(builder)
            made.append(rank)
            builders.append(builder)
        ranks = Ranks(
            request=request,
            ranks=made,
            builders=builders,
            steps={
                step.id: (loaded.RANK.rank, step) for loaded in modules for step in loaded.STEPS
            },
        )
        placed = json.loads(files[f"placements/{placement}/placement.json"])
        starts = {name: start["step"] for name, start in placed["machines"].items()}
        take_turns(ranks, starts, admission, order)
        streams = {
            stream.name: items_of(stream, request.rings)
            for stream in program.streams
            if lanes_of(stream)[0].name in request.rings
        }
        for rank in made:
            rank.release(0)
    emits = {name: tuple(values) for name, values in request.emits.items()}
    return emits, streams


def items_of(stream: Stream, rings: Mapping[str, ToyRing]) -> list[Any]:
    """All items of a stream, of its lanes together."""
    columns = {
        lane.field or "": [value for value, _ in rings[lane.name].history.items]
        for lane in lanes_of(stream)
    }
    if not isinstance(stream.item, TupleType):
        return columns[""]
    return [
        Fields(tuple(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]


def as_given(value: Any) -> Any:
    """An input as the runtime hands it over: parts know where they stand."""
    if not isinstance(value, tuple):
        return value
    parts = [plan_api.Part(kind=p.kind, value=p.value, role=p.role) for p in value]
    return plan_api.parts_in_order(parts)


def take_turns(ranks: Ranks, starts: Mapping[str, int], admission: Any, order: Random) -> None:
    """Run all machines that run, in any order; one that waits for ever is an error."""
    for _, step in ranks.steps.values():
        if isinstance(step, plan_api.DoneStep) and not admission.runs[step.machine]:
            for name in step.closes:
                ranks.request.rings[name].history.closed = True
    live = {name: ranks.machine(start) for name, start in starts.items() if admission.runs[name]}
    idle = 0
    while live:
        name = order.choice(sorted(live))
        said = next(live[name], "done")
        if said == "done":
            del live[name]
        idle = idle + 1 if said == "waits" else 0
        assert idle < 1000, f"{', '.join(sorted(live))} wait for ever"

"""One machine of a request, as a generator that pauses between statements and when it must wait."""

from random import Random
from typing import Any, Protocol, assert_never

from mstarc.ir.chunks import Chunk, next_item
from mstarc.ir.exprs import Expr, Field, Local
from mstarc.ir.graph import (
    Assign,
    Call,
    Each,
    Emit,
    Fork,
    ForParts,
    Loop,
    Machine,
    MarkStream,
    Match,
    Node,
    Op,
    Parallel,
    Policy,
    Program,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Value,
    Walk,
    When,
)
from mstarc.ir.interpret.effects import context_of, effect_of, flags_of
from mstarc.ir.interpret.evaluate import Evaluator, Scope
from mstarc.ir.interpret.reads import BLOCKED, ChunkReads, Steps
from mstarc.ir.interpret.request import Part, RequestError
from mstarc.ir.interpret.streams import Channel, items_of
from mstarc.ir.interpret.toys import Rows, Toys, digest, extents_of, sizes_of
from mstarc.ir.types import TupleType, Type
from mstarc.ir.walking import Body


class Shared(Protocol):
    """What the machines of a request share."""

    program: Program
    evaluator: Evaluator
    order: Random | None
    toys: Toys
    nodes: dict[str, Node]
    walks: dict[str, Walk]
    emits: dict[str, list[Any]]
    calls: dict[str, int]
    contexts: dict[tuple[str, str], Rows]
    states: dict[str, list[int]]
    channels: dict[str, Channel]


class MachineRun:
    """The run of one machine."""

    def __init__(self, shared: Shared, machine: Machine) -> None:
        self.shared = shared
        self.machine = machine
        self.registers = {value.name: value.type for value in machine.registers}

    def steps(self) -> Steps:
        """Run from the first state to `done`; yields `BLOCKED` where it has to wait."""
        states = {state.name: state for state in self.machine.states}
        scope = Scope(values=dict.fromkeys(self.registers), types=dict(self.registers))
        name = self.machine.states[0].name
        while name != "done":
            state = states[name]
            yield from self.body(state.body, scope)
            go = state.next
            holds = go.condition is None or self.value(go.condition, scope)
            name = go.target if holds else go.otherwise or go.target
            yield None

    def value(self, expr: Expr, scope: Scope) -> Any:
        return self.shared.evaluator.evaluate(expr, scope)

    def holds(self, condition: Expr | None, scope: Scope) -> bool:
        return condition is None or bool(self.value(condition, scope))

    def count(self, site: str) -> None:
        self.shared.calls[site] = self.shared.calls.get(site, 0) + 1

    def set(self, value: Value | None, content: Any, scope: Scope) -> None:
        if value is not None:
            scope.values[value.name] = content
            scope.types[value.name] = value.type

    def body(self, body: Body, scope: Scope) -> Steps:
        for statement in body:
            yield from self.statement(statement, scope)
            yield None

    def statement(self, statement: Statement, scope: Scope) -> Steps:
        match statement:
            case Call():
                self.call(statement, scope)
            case Assign(result=result, value=value) | SetRegister(result=result, value=value):
                self.set(result, self.value(value, scope), scope)
            case Send():
                yield from self.send(statement, scope)
            case Pull():
                yield from self.pull(statement, scope)
            case Emit(output=output, value=value, condition=condition):
                wants = self.shared.evaluator.wants or frozenset()
                if output in wants and self.holds(condition, scope):
                    self.shared.emits[output].append(self.value(value, scope))
            case Loop():
                yield from self.loop(statement, scope)
            case When():
                yield from self.when(statement, scope)
            case Parallel(branches=branches):
                for branch in self.shuffled(branches):
                    yield from self.body(branch, scope)
            case Fork(condition=condition):
                if self.holds(condition, scope):
                    self.fork(statement, scope)
            case Release(node=node, context=context, index=index):
                for name in self.named(node, context, index, scope):
                    self.shared.contexts[node, name] = Rows()
            case Run():
                yield from self.run(statement, scope)
            case Each():
                yield from self.each(statement, scope)
            case ForParts():
                yield from self.for_parts(statement, scope)
            case Match(part=part, arms=arms):
                kind = scope.parts[part]["kind"]
                for arm in arms:
                    if arm.kind == kind:
                        self.set(arm.value, scope.parts[part]["value"], scope)
                        yield from self.body(arm.body, scope)
            case MarkStream(stream=stream, mark=mark):
                channel = self.shared.channels[stream]
                channel.history.marks.append((len(channel.history.items), mark))
            case _:
                assert_never(statement)

    def shuffled(self, branches: tuple[Body, ...]) -> list[Body]:
        order = list(branches)
        if self.shared.order is not None:
            self.shared.order.shuffle(order)
        return order

    def rows(self, node: str, context: str) -> Rows:
        return self.shared.contexts.setdefault((node, context), Rows())

    def named(self, node: str, context: str, index: Expr | None, scope: Scope) -> list[str]:
        """The contexts that are meant: one, one of an array, or all of an array."""
        contexts = self.shared.nodes[node].contexts
        count = next((c.count for c in contexts if c.name == context), None)
        if index is not None:
            return [f"{context}[{self.value(index, scope)}]"]
        if count is None:
            return [context]
        return [f"{context}[{at}]" for at in range(self.value(count, scope))]

    def fork(self, fork: Fork, scope: Scope) -> None:
        targets = self.named(fork.node, fork.target, fork.target_index, scope)
        sources = self.named(fork.node, fork.source, fork.source_index, scope)
        if len(sources) == 1:
            sources = sources * len(targets)
        for target, source in zip(targets, sources, strict=True):
            rows = self.rows(fork.node, source).rows
            self.shared.contexts[fork.node, target] = Rows(list(rows))

    def call(self, call: Call, scope: Scope) -> None:
        self.count(call.site)
        node = self.shared.nodes[call.node]
        op = next(op for op in node.ops if op.name == call.op)
        arguments = [self.value(argument, scope) for argument in call.arguments]
        meant = effect_of(node, op, call)
        names = [meant] if meant is None else self.named(call.node, meant, call.index, scope)
        if not self.is_array(node, meant, call):
            results = self.call_one(op, node, call, arguments, names[0])
            for value, content in zip(call.results, results, strict=True):
                self.set(value, content, scope)
            return
        columns: list[list[Any]] = [[] for _ in call.results]
        for at, name in enumerate(names):
            entries = [
                argument[at] if each and argument is not None else argument
                for argument, each in zip(
                    arguments, call.over or (False,) * len(arguments), strict=True
                )
            ]
            results = self.call_one(op, node, call, entries, name)
            for column, content in zip(columns, results, strict=True):
                column.append(content)
        for value, column in zip(call.results, columns, strict=True):
            self.set(value, None if None in column else tuple(column), scope)

    def is_array(self, node: Node, context: str | None, call: Call) -> bool:
        """Whether a call is on all contexts of an array."""
        return call.index is None and any(
            c.name == context and c.count is not None for c in node.contexts
        )

    def call_one(
        self, op: Op, node: Node, call: Call, arguments: list[Any], context: str | None
    ) -> list[Any]:
        """What a call gives on one context, in place of the first that its op means."""
        effects = [context_of(node, name, call) for name in (*op.writes, *op.reads)]
        if effects and context is not None:
            effects[0] = context
        written = effects[: len(op.writes)]
        state = self.shared.states.setdefault(call.node, []) if op.stateful else []
        held = [tuple(self.rows(call.node, name).rows) for name in effects]
        seed = digest(call.node, call.op, arguments, held, state)
        sizes = sizes_of(op, arguments)
        for name in written:
            count = max(sizes.values(), default=1)
            self.rows(call.node, name).append(digest(seed, name, i) for i in range(count))
        if op.stateful:
            state.append(seed)
        flags = flags_of(op, arguments)
        extents = extents_of(op, arguments, self.shared.evaluator.options, seed)
        return [
            self.shared.toys.value(result.type, digest(seed, index), extents)
            if self.holds(result.condition, flags)
            else None
            for index, result in enumerate(op.results)
        ]

    def send(self, send: Send, scope: Scope) -> Steps:
        if not self.holds(send.condition, scope):
            return
        channel = self.shared.channels[send.stream]
        types = [type_of(value, scope) for value in send.values]
        values = [self.value(value, scope) for value in send.values]
        for item in items_of(channel.stream.item, types, values):
            while channel.is_full:
                yield BLOCKED
            channel.history.items.append(item)
            yield None

    def pull(self, pull: Pull, scope: Scope) -> Steps:
        channel = self.shared.channels[pull.stream]
        channel.policy = Policy(kind="fixed", size=1)
        while (found := next_item(channel.cursor, channel.history)) is None:
            yield BLOCKED
        event, channel.cursor = found
        if isinstance(event, Chunk):
            self.set(pull.result, channel.history.items[event.offset], scope)
            return
        if not pull.or_none:
            raise RequestError(f"stream `{pull.stream}` is closed")
        self.set(pull.result, None, scope)

    def loop(self, loop: Loop, scope: Scope) -> Steps:
        passes = self.value(loop.bound, scope)
        carried = [self.value(carry.initial, scope) for carry in loop.carries]
        collected: list[list[Any]] = [[] for _ in loop.collects]
        for index in range(passes):
            inner = scope.inside()
            if loop.index is not None:
                inner.indices[loop.index] = index
            for carry, content in zip(loop.carries, carried, strict=True):
                self.set(carry.value, content, inner)
            if not self.holds(loop.condition, inner):
                break
            self.count(loop.site)
            yield from self.body(loop.body, inner)
            carried = [self.value(value, inner) for value in loop.yields]
            stops = loop.until is not None and self.holds(loop.until, inner)
            for rows, collect in zip(collected, loop.collects, strict=True):
                rows.append(self.value(at_pass_end(loop, collect.value), inner))
            if stops:
                break
        for value, content in zip(loop.results, carried, strict=True):
            self.set(value, content, scope)
        for collect, rows in zip(loop.collects, collected, strict=True):
            self.set(collect.result, tuple(rows), scope)

    def when(self, when: When, scope: Scope) -> Steps:
        holds = self.holds(when.condition, scope)
        body, yields = (
            (when.then, when.then_yields) if holds else (when.otherwise, when.otherwise_yields)
        )
        yield from self.body(body, scope)
        for value, content in zip(when.results, yields, strict=True):
            self.set(value, self.value(content, scope), scope)

    def run(self, run: Run, scope: Scope) -> Steps:
        self.count(run.site)
        walk = self.shared.walks[run.walk]
        inner = Scope()
        for parameter, argument in zip(walk.parameters, run.arguments, strict=True):
            self.set(parameter, self.value(argument, scope), inner)
        yield from self.body(walk.body, inner)
        contents = [self.value(value, inner) for value in walk.returns]
        for result, content in zip(run.results, contents, strict=True):
            self.set(result, content, scope)

    def for_parts(self, loop: ForParts, scope: Scope) -> Steps:
        parts: tuple[Part, ...] = self.shared.evaluator.inputs.get(loop.over) or ()
        for index, part in enumerate(parts):
            before = parts[index - 1] if index else None
            after = parts[index + 1] if index + 1 < len(parts) else None
            scope.parts[loop.part] = {
                "kind": part.kind,
                "value": part.value,
                "role": part.role,
                "first": before is None,
                "last": after is None,
                "opens": before is None or before.role != part.role,
                "closes": after is None or after.role != part.role,
            }
            yield from self.body(loop.body, scope)

    def each(self, each: Each, scope: Scope) -> Steps:
        channels = [self.shared.channels[name] for name in each.streams]
        reads = [ChunkReads(self.value, channel, each, scope) for channel in channels]
        held: list[Any] | None = None
        while True:
            contents: list[Any] = []
            for read in reads:
                yield from read.next()
                contents.append(read.content)
            ended = [read.ended for read in reads]
            if any(ended):
                if not all(ended):
                    raise RequestError("streams that are read in step end apart")
                break
            if each.last is None:
                yield from self.chunk(each, contents, None, scope)
            elif held is not None:
                yield from self.chunk(each, held, False, scope)
            held = contents
        if each.last is not None and held is not None:
            yield from self.chunk(each, held, True, scope)
        for channel in channels:
            is_error = channel.stream.empty == "error"
            if is_error and channel.history.closed and not channel.history.items:
                raise RequestError(f"stream `{channel.stream.name}` closed without an item")

    def chunk(self, each: Each, contents: list[Any], last: bool | None, scope: Scope) -> Steps:
        self.count(each.site)
        for value, content in zip(each.names, contents, strict=True):
            self.set(value, content, scope)
        if each.last is not None:
            scope.values[each.last] = last
        yield from self.body(each.body, scope)


def at_pass_end(loop: Loop, value: Expr) -> Expr:
    """What a `collect` of a carried value stacks: what the pass hands on."""
    names = [carry.value.name for carry in loop.carries]
    if isinstance(value, Local) and value.name in names:
        return loop.yields[names.index(value.name)]
    return value


def type_of(expr: Expr, scope: Scope) -> Type | None:
    """The type of a value or of a field of one, where it is known."""
    match expr:
        case Local(name):
            return scope.types.get(name)
        case Field(Local(name), field_name):
            item = scope.types.get(name)
            return dict(item.fields).get(field_name) if isinstance(item, TupleType) else None
        case _:
            return None

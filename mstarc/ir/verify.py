"""Hold a program to its invariants, before the first pass and after each.

Names are defined once and before they are read; calls, runs, loops and choices have the values that
their declarations ask for; streams, states, contexts and marks that are named exist; sites are
unique. What passes decide is checked in `verify_decisions`. A violation is a mistake of ours:
`InternalError` names the stage after which it holds, and the spec's place.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import NoReturn, assert_never

from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import Expr, LetRef, Local, LoopIndex, Option, PartAttribute, TableItem, Wants
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
    Parallel,
    Program,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Stream,
    Value,
    Walk,
    When,
)
from mstarc.ir.types import OptionalType, TensorType, Type
from mstarc.ir.verify_decisions import verify_decisions
from mstarc.ir.walking import Body, reads_of, subexpressions
from mstarc.records import dataclass
from mstarc.source import Span


def verify(program: Program, *, stage: str, known: Program | None = None) -> None:
    """Raise `InternalError` unless the program, as `stage` left it, is sound.

    `known` is a program that is. Where the new one has its very bodies and declarations, they are:
    the later passes change none.
    """
    if known is None or not _has_the_bodies_of(known, program):
        _Verifier(program, stage).program_()
    verify_decisions(program, stage)


def _has_the_bodies_of(known: Program, program: Program) -> bool:
    parts = ("nodes", "walks", "machines", "inputs", "outputs", "options", "lets", "tables")
    if any(getattr(known, part) is not getattr(program, part) for part in parts):
        return False
    # Streams get capacities. Bodies ask for their names and marks, machines for their ends.
    facts = [
        [(s.name, s.marks, s.producer, s.consumer) for s in p.streams] for p in (known, program)
    ]
    return facts[0] == facts[1]


@dataclass(slots=True)
class _Scope:
    """What may be read here. `registers` is None in a walk, where each name is defined once."""

    values: dict[str, Type]
    indices: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    registers: dict[str, Type] | None = None
    defined: set[str] = field(default_factory=set)

    def inside(self, index: str | None = None, part: str | None = None) -> "_Scope":
        """The scope of a block: sees this one, and keeps what it defines."""
        return _Scope(
            dict(self.values),
            self.indices | ({index} if index else frozenset()),
            self.parts | ({part} if part else frozenset()),
            self.registers,
            self.defined,
        )


class _Verifier:
    def __init__(self, program: Program, stage: str) -> None:
        self.program = program
        self.stage = stage
        self.nodes = {node.name: node for node in program.nodes}
        self.streams = {stream.name: stream for stream in program.streams}
        self.walks = {walk.name: walk for walk in program.walks}
        self.outputs = {output.name for output in program.outputs}
        self.options = {option.name for option in program.options}
        self.lets = {let.name for let in program.lets}
        self.tables = {table.name for table in program.tables}
        self.sites: set[str] = set()

    def fail(self, message: str, span: Span | None) -> NoReturn:
        raise InternalError(message, stage=self.stage, span=span)

    def check(self, holds: bool, message: str, span: Span | None) -> None:
        if not holds:
            self.fail(message, span)

    def program_(self) -> None:
        program = self.program
        for what, names in (
            ("node", [node.name for node in program.nodes]),
            ("stream", [stream.name for stream in program.streams]),
            ("walk", [walk.name for walk in program.walks]),
            ("machine", [machine.name for machine in program.machines]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            self.check(not twice, f"{what} `{', '.join(twice)}` is there twice", None)
        for node in program.nodes:
            self.node(node)
        for stream in program.streams:
            self.stream(stream)
        for walk in program.walks:
            self.walk(walk)
        for machine in program.machines:
            self.machine(machine)

    def node(self, node: Node) -> None:
        contexts = {context.name for context in node.contexts}
        for op in node.ops:
            for name in (*op.writes, *op.reads):
                known = name in contexts
                self.check(known, f"op `{node.name}.{op.name}` names context `{name}`", op.span)
            stray = bool(op.writes or op.reads) and node.engine != "kv_cache"
            self.check(not stray, f"`{node.name}` keeps no contexts", op.span)

    def stream(self, stream: Stream) -> None:
        machines = {machine.name for machine in self.program.machines}
        for name in (stream.producer, stream.consumer):
            there = name in machines
            self.check(there, f"stream `{stream.name}` names machine `{name}`", stream.span)
        apart = stream.producer != stream.consumer
        self.check(apart, f"stream `{stream.name}` leads back to its machine", stream.span)

    def walk(self, walk: Walk) -> None:
        scope = _Scope({})
        for value in walk.parameters:
            self.define(value, scope, walk.span)
        self.body(walk.body, scope)
        count = len(walk.returns) == len(walk.results)
        self.check(count, f"walk `{walk.name}` returns {len(walk.returns)} values", walk.span)
        self.reads(walk.returns, scope, walk.span)

    def machine(self, machine: Machine) -> None:
        names = {state.name for state in machine.states}
        self.check(bool(names), f"machine `{machine.name}` has no states", machine.span)
        distinct = len(names) == len(machine.states)
        self.check(distinct, f"a state of `{machine.name}` is there twice", machine.span)
        registers = {value.name: value.type for value in machine.registers}
        for state in machine.states:
            scope = _Scope(dict(registers), registers=registers)
            self.body(state.body, scope)
            go = state.next
            self.reads([go.condition] if go.condition is not None else [], scope, go.span)
            for target in (go.target, go.otherwise):
                known = target is None or target == "done" or target in names
                self.check(known, f"`{machine.name}` goes on to `{target}`", go.span)
            paired = (go.condition is None) == (go.otherwise is None)
            self.check(paired, "a condition and its other state go together", go.span)

    def body(self, body: Body, scope: _Scope) -> None:
        for statement in body:
            self.reads(reads_of(statement), scope, statement.span)
            self.statement(statement, scope)

    def define(self, value: Value | None, scope: _Scope, span: Span) -> None:
        if value is None:
            return
        if scope.registers is None:
            once = value.name not in scope.defined
            self.check(once, f"value `{value.name}` is defined twice", span)
            scope.defined.add(value.name)
        else:
            known = value.name in scope.registers
            self.check(known, f"`{value.name}` is no register", span)
        scope.values[value.name] = value.type

    def reads(self, exprs: Iterable[Expr], scope: _Scope, span: Span) -> None:
        for expr in (part for whole in exprs for part in subexpressions(whole)):
            match expr:
                case Local(name):
                    self.check(name in scope.values, f"`{name}` is read before it is set", span)
                case LoopIndex(name):
                    self.check(name in scope.indices, f"no loop here has index `{name}`", span)
                case PartAttribute(part, _):
                    self.check(part in scope.parts, f"no part `{part}` here", span)
                case Option(name):
                    self.check(name in self.options, f"no option `{name}`", span)
                case LetRef(name):
                    self.check(name in self.lets, f"no let `{name}`", span)
                case TableItem(table, _):
                    self.check(table in self.tables, f"no table `{table}`", span)
                case Wants(output):
                    self.check(output in self.outputs, f"no output `{output}`", span)
                case _:
                    pass

    def site(self, site: str, span: Span) -> None:
        self.check(site not in self.sites, f"site `{site}` is there twice", span)
        self.sites.add(site)

    def statement(self, statement: Statement, scope: _Scope) -> None:
        span = statement.span
        match statement:
            case Call():
                self.call(statement, scope)
            case Run():
                self.run(statement, scope)
            case Assign(result=result) | SetRegister(result=result):
                self.define(result, scope, span)
            case Send(stream=name):
                self.check(name in self.streams, f"no stream `{name}`", span)
            case Pull(stream=name, result=result):
                self.check(name in self.streams, f"no stream `{name}`", span)
                self.define(result, scope, span)
            case Emit(output=output):
                self.check(output in self.outputs, f"no output `{output}`", span)
            case Loop():
                self.loop(statement, scope)
            case When():
                self.when(statement, scope)
            case Parallel(branches=branches):
                for branch in branches:
                    inner = scope.inside()
                    self.body(branch, inner)
                    scope.values |= inner.values
            case Fork(node=node, target=target, source=source):
                self.context(node, target, span, statement.target_index)
                self.context(node, source, span, statement.source_index)
            case Release(node=node, context=context, index=index):
                self.context(node, context, span, index)
            case MarkStream(stream=name, mark=mark):
                known = name in self.streams and mark in self.streams[name].marks
                self.check(known, f"no mark `{name}.{mark}`", span)
            case Each():
                self.each(statement, scope)
            case ForParts(part=part, body=body):
                self.body(body, scope.inside(part=part))
            case Match(part=part, arms=arms):
                self.check(part in scope.parts, f"no part `{part}` here", span)
                for arm in arms:
                    inner = scope.inside()
                    inner.values[arm.value.name] = arm.value.type
                    self.body(arm.body, inner)
            case _:
                assert_never(statement)

    def context(self, node: str, context: str, span: Span, index: Expr | None = None) -> None:
        contexts = self.nodes[node].contexts if node in self.nodes else ()
        found = next((c for c in contexts if c.name == context), None)
        self.check(found is not None, f"no context `{node}.{context}`", span)
        one = index is None or (found is not None and found.count is not None)
        self.check(one, f"`{node}.{context}` is one context", span)

    def call(self, call: Call, scope: _Scope) -> None:
        self.site(call.site, call.span)
        node = self.nodes.get(call.node)
        if node is None:
            self.fail(f"no node `{call.node}`", call.span)
        op = next((op for op in node.ops if op.name == call.op), None)
        if op is None:
            self.fail(f"no op `{call.node}.{call.op}`", call.span)
        if call.context is not None:
            self.context(call.node, call.context, call.span, call.index)
        name = f"`{call.node}.{call.op}`"
        given, wanted = len(call.arguments), len(op.parameters)
        self.check(given == wanted, f"{name} is given {given} of {wanted} arguments", call.span)
        given, wanted = len(call.results), len(op.results)
        self.check(given == wanted, f"{name} gives {wanted} results, not {given}", call.span)
        given, wanted = len(call.over), len(call.arguments)
        self.check(given in (0, wanted), f"{name} has {given} of {wanted} `each`", call.span)
        over = call.over or (False,) * wanted
        for argument, parameter, each in zip(call.arguments, op.parameters, over, strict=True):
            if isinstance(argument, Local):
                type_ = scope.values[argument.name]
                type_ = _entry(type_) if each else type_
                label = f"{name} is given `{argument.name}` for `{parameter.name}`"
                self.check(_can_be(type_, parameter.type), label, call.span)
        for value in call.results:
            self.define(value, scope, call.span)

    def run(self, run: Run, scope: _Scope) -> None:
        self.site(run.site, run.span)
        walk = self.walks.get(run.walk)
        if walk is None:
            self.fail(f"no walk `{run.walk}`", run.span)
        given, wanted = len(run.arguments), len(walk.parameters)
        name = f"walk `{walk.name}`"
        self.check(given == wanted, f"{name} is given {given} of {wanted} arguments", run.span)
        given, wanted = len(run.results), len(walk.results)
        self.check(given == wanted, f"{name} gives {wanted} results, not {given}", run.span)
        for value in run.results:
            self.define(value, scope, run.span)

    def loop(self, loop: Loop, scope: _Scope) -> None:
        self.site(loop.site, loop.span)
        inner = scope.inside(index=loop.index)
        for carry in loop.carries:
            self.define(carry.value, inner, loop.span)
        count = len(loop.carries)
        for what, values in (("yields", loop.yields), ("results", loop.results)):
            message = f"loop `{loop.site}` has {len(values)} {what} for {count} carries"
            self.check(len(values) == count, message, loop.span)
        one = loop.condition is None or loop.until is None
        self.check(one, f"loop `{loop.site}` has both conditions", loop.span)
        self.reads([loop.condition] if loop.condition is not None else [], inner, loop.span)
        self.body(loop.body, inner)
        until = [loop.until] if loop.until is not None else []
        collected = [collect.value for collect in loop.collects]
        self.reads([*loop.yields, *until, *collected], inner, loop.span)
        for value in loop.results:
            self.define(value, scope, loop.span)
        for collect in loop.collects:
            self.define(collect.result, scope, loop.span)

    def when(self, when: When, scope: _Scope) -> None:
        for body, yields in (
            (when.then, when.then_yields),
            (when.otherwise, when.otherwise_yields),
        ):
            inner = scope.inside()
            self.body(body, inner)
            count = len(yields) == len(when.results)
            self.check(count, "a branch yields one value a result", when.span)
            self.reads(yields, inner, when.span)
        for value in when.results:
            self.define(value, scope, when.span)

    def each(self, each: Each, scope: _Scope) -> None:
        self.site(each.site, each.span)
        inner = scope.inside()
        for name in each.streams:
            self.check(name in self.streams, f"no stream `{name}`", each.span)
            marked = each.until is None or each.until in self.streams[name].marks
            self.check(marked, f"no mark `{name}.{each.until}`", each.span)
        count = len(each.streams) == len(each.names)
        self.check(count, "`each` has one name a stream", each.span)
        for value in each.names:
            inner.values[value.name] = value.type
        if each.last is not None:
            inner.values[each.last] = TensorType("bool")
        self.body(each.body, inner)


def _entry(type_: Type) -> Type:
    """One entry of a value that has one a context."""
    if isinstance(type_, OptionalType):
        return OptionalType(_entry(type_.item))
    return TensorType(type_.dtype, type_.dims[1:]) if isinstance(type_, TensorType) else type_


def _can_be(type_: Type, wanted: Type) -> bool:
    """Whether a value of a type may be given: tensors agree in dtype and rank."""
    if isinstance(type_, OptionalType):
        type_ = type_.item
    if isinstance(wanted, OptionalType):
        wanted = wanted.item
    if not (isinstance(type_, TensorType) and isinstance(wanted, TensorType)):
        return True
    return type_.dtype == wanted.dtype and len(type_.dims) == len(wanted.dims)

"""Resolve the names in the bodies of walks and of machines' states.

A walk or a machine has one space of names: a value is declared where it is first assigned, and a
later assignment of the name means the same symbol. Loop indices, parts, chunks and what an arm
binds are seen in their block only.
"""

from collections.abc import Iterator
from typing import assert_never

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names.declare import refuse_doubles
from mstarc.names.expressions import (
    resolve_context,
    resolve_expr,
    resolve_policy,
    resolve_type,
    resolve_value,
)
from mstarc.names.scope import Scope, Uses, report_unknown
from mstarc.names.symbols import KIND_WORDS, Symbol
from mstarc.syntax import ast


def resolve_walk(walk: ast.WalkDecl, top: Scope, uses: Uses) -> None:
    """Resolve a walk: its signature, then its body."""
    inputs = {symbol.name: symbol for symbol in uses.symbols.values_of("input")}
    seen = {name: symbol for name, symbol in top.names.items() if symbol.kind != "input"}
    outer = Scope(seen, hidden=inputs)
    refuse_doubles((param.name for param in walk.params), "parameter", uses.sink)
    refuse_doubles((result.name for result in walk.results), "value", uses.sink)
    names: dict[str, Symbol] = {}
    for param in walk.params:
        symbol = Symbol(kind="parameter", declaration=param.name, node=param)
        uses.found[param.name] = names.setdefault(param.name.text, symbol)
    dims: dict[str, Symbol] = {}
    scope = Scope(names, outer)
    for param in walk.params:
        resolve_type(param.type, scope, dims, uses)
        if param.default is not None:
            resolve_expr(param.default, outer, uses)
    for result in walk.results:
        resolve_type(result.type, scope, dims, uses)
        if result.condition is not None:
            resolve_expr(result.condition, scope, uses)
    _declare_values(walk.body, names, outer, uses)
    _Bodies(uses, machine=None).block(walk.body, scope)


def resolve_machine(machine: ast.MachineDecl, top: Scope, uses: Uses) -> None:
    """Resolve a machine: all its states share their values."""
    if machine.condition is not None:
        resolve_expr(machine.condition, top, uses)
    names: dict[str, Symbol] = {}
    for state in machine.states:
        _declare_values(state.body, names, top, uses)
    scope = Scope(names, top)
    bodies = _Bodies(uses, machine=machine)
    for state in machine.states:
        if state.name.text == "done":
            uses.sink.report(
                Diagnostic(
                    code="MS0216",
                    message="a state cannot be named `done`",
                    primary=Label(span=state.name.span, text="`done` is where every machine ends"),
                    helps=("give the state another name",),
                )
            )
        bodies.block(state.body, scope)


def _declare_values(block: ast.Block, names: dict[str, Symbol], outer: Scope, uses: Uses) -> None:
    """Add the names that a body assigns, and note each assignment as a use."""
    for name, node in _assigned(block):
        taken = outer.find(name.text)
        if taken is not None and name.text not in names:
            word = KIND_WORDS[taken.kind]
            uses.sink.report(
                Diagnostic(
                    code="MS0215",
                    message=f"`{name.text}` is the {word} of that name and cannot be set",
                    primary=Label(span=name.span, text="set here"),
                    notes=(f"a request keeps its {word} `{name.text}` from start to end",),
                    helps=("give the value another name",),
                ).label(taken.declaration.span, f"the {word}")
            )
        symbol = Symbol(kind="value", declaration=name, node=node)
        uses.found[name] = names.setdefault(name.text, symbol)


def _assigned(block: ast.Block) -> Iterator[tuple[ast.Name, ast.Node]]:
    for statement in block.statements:
        match statement:
            case ast.Assign():
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        yield target, statement
            case ast.Let():
                yield statement.name, statement
            case ast.Loop():
                for carry in statement.carries:
                    yield carry.name, carry
                yield from _assigned(statement.body)
                for collect in statement.collects:
                    yield collect.name, collect
            case ast.Parallel() | ast.For() | ast.Each():
                yield from _assigned(statement.body)
            case ast.When():
                yield from _assigned_in_when(statement)
            case ast.Match():
                for arm in statement.arms:
                    yield from _assigned(arm.body)
            case _:
                pass


def _assigned_in_when(when: ast.When) -> Iterator[tuple[ast.Name, ast.Node]]:
    yield from _assigned(when.then)
    if isinstance(when.otherwise, ast.When):
        yield from _assigned_in_when(when.otherwise)
    elif when.otherwise is not None:
        yield from _assigned(when.otherwise)


class _Bodies:
    """Resolves blocks; `machine` is None in a walk."""

    def __init__(self, uses: Uses, *, machine: ast.MachineDecl | None) -> None:
        self._uses = uses
        self._machine = machine
        uses.untaken.clear()

    def block(self, block: ast.Block, scope: Scope) -> None:
        for statement in block.statements:
            self._statement(statement, scope)

    def _note_untaken(self, assign: ast.Assign) -> None:
        """Note the results of a call that gives more or fewer values than there are names."""
        match assign.value:
            case ast.OpCall(target=ref):
                symbol = self._uses.found.get(ref.op)
            case ast.RunCall(walk=walk):
                symbol = self._uses.found.get(walk)
            case _:
                return
        declared = symbol.node if symbol is not None else None
        results = declared.results if isinstance(declared, ast.OpDecl | ast.WalkDecl) else ()
        if len(results) != len(assign.targets):
            self._uses.untaken.update(result.name.text for result in results)

    def _statement(self, statement: ast.Stmt, scope: Scope) -> None:
        uses = self._uses
        match statement:
            case ast.Assign():
                resolve_expr(statement.value, scope, uses)
                self._note_untaken(statement)
            case ast.Let():
                resolve_expr(statement.value, scope, uses)
            case ast.CallStmt() | ast.RunStmt():
                resolve_expr(statement.call, scope, uses)
            case ast.Send():
                text = statement.stream.text
                if text in uses.symbols.outputs and text not in uses.symbols.streams:
                    helps = (f"`{text}` is an output: `emit {text} <- …` gives it to the client",)
                    report_unknown(statement.stream, (), "MS0205", "stream", uses.sink, helps=helps)
                else:
                    uses.use(statement.stream, uses.symbols.streams, "MS0205", "stream")
                for value in statement.values:
                    resolve_expr(value, scope, uses)
                self._condition(statement.condition, scope)
            case ast.Emit():
                text = statement.output.text
                if text in uses.symbols.streams and text not in uses.symbols.outputs:
                    helps = (f"`{text}` is a stream: `send {text} <- …` hands it to its reader",)
                    report_unknown(statement.output, (), "MS0208", "output", uses.sink, helps=helps)
                else:
                    uses.use(statement.output, uses.symbols.outputs, "MS0208", "output")
                resolve_expr(statement.value, scope, uses)
                self._condition(statement.condition, scope)
            case ast.Loop():
                self._loop(statement, scope)
            case ast.Parallel():
                self.block(statement.body, scope)
            case ast.When():
                self._when(statement, scope)
            case ast.Fork():
                self._context_path(statement.target, scope)
                self._context_path(statement.source, scope)
                self._condition(statement.condition, scope)
            case ast.Release():
                self._context_path(statement.target, scope)
            case ast.For():
                self._for(statement, scope)
            case ast.Match():
                self._match(statement, scope)
            case ast.Each():
                self._each(statement, scope)
            case ast.Mark():
                stream = uses.use(statement.stream, uses.symbols.streams, "MS0205", "stream")
                if stream is not None:
                    self._mark(statement.mark, stream)
            case ast.Next():
                self._condition(statement.condition, scope)
                for target in (statement.target, statement.otherwise):
                    if target is not None and target.text != "done":
                        self._state(target)
            case _:
                assert_never(statement)

    def _condition(self, condition: ast.Expr | None, scope: Scope) -> None:
        if condition is not None:
            resolve_expr(condition, scope, self._uses)

    def _loop(self, loop: ast.Loop, scope: Scope) -> None:
        resolve_expr(loop.bound.count, scope, self._uses)
        for carry in loop.carries:
            resolve_expr(carry.initial, scope, self._uses)
        inner = scope
        if loop.index is not None:
            symbol = Symbol(kind="index", declaration=loop.index, node=loop)
            self._uses.found[loop.index] = symbol
            inner = Scope({loop.index.text: symbol}, scope)
        self._condition(loop.while_condition, inner)
        self.block(loop.body, inner)
        self._condition(loop.until_condition, inner)
        for collect in loop.collects:
            resolve_expr(collect.value, inner, self._uses)

    def _when(self, when: ast.When, scope: Scope) -> None:
        self._condition(when.condition, scope)
        self.block(when.then, scope)
        if isinstance(when.otherwise, ast.When):
            self._when(when.otherwise, scope)
        elif when.otherwise is not None:
            self.block(when.otherwise, scope)

    def _context_path(self, path: ast.ContextPath, scope: Scope) -> None:
        self._uses.use(path.node, self._uses.symbols.nodes, "MS0202", "node")
        resolve_context(path.node, path.context.name, self._uses)
        if path.context.index is not None:
            resolve_expr(path.context.index, scope, self._uses)

    def _for(self, loop: ast.For, scope: Scope) -> None:
        inputs = {symbol.name: symbol for symbol in self._uses.symbols.values_of("input")}
        source = loop.source.text
        if source in inputs:
            self._uses.found[loop.source] = inputs[source]
        else:
            symbols, item = self._uses.symbols, loop.variable.text
            helps: tuple[str, ...] = ()
            if source in symbols.streams:
                helps = (f"chunks of a stream are read by `each {source} as {item} {{ … }}`",)
            elif source in symbols.values:
                helps = (
                    f"`for` goes over the parts of an input; in a walk, `loop {source} times as "
                    f"{item} {{ … }}` counts",
                )
            report_unknown(loop.source, inputs, "MS0209", "input", self._uses.sink, helps=helps)
        symbol = Symbol(kind="part", declaration=loop.variable, node=loop)
        self._uses.found[loop.variable] = symbol
        self.block(loop.body, Scope({loop.variable.text: symbol}, scope))

    def _match(self, match: ast.Match, scope: Scope) -> None:
        resolve_value(match.subject, scope, self._uses)
        for arm in match.arms:
            symbol = Symbol(kind="value", declaration=arm.binding, node=arm)
            self._uses.found[arm.binding] = symbol
            self.block(arm.body, Scope({arm.binding.text: symbol}, scope))

    def _each(self, each: ast.Each, scope: Scope) -> None:
        uses = self._uses
        streams = [
            uses.use(stream, uses.symbols.streams, "MS0205", "stream") for stream in each.streams
        ]
        first = streams[0] if streams else None
        names: dict[str, Symbol] = {}
        for item in each.items:
            symbol = Symbol(kind="value", declaration=item, node=each)
            uses.found[item] = names.setdefault(item.text, symbol)
        refuse_doubles(each.items, "value", uses.sink)
        if each.last is not None:
            symbol = Symbol(kind="last", declaration=each.last, node=each)
            uses.found[each.last] = names.setdefault(each.last.text, symbol)
        if each.policy is not None:
            resolve_policy(each.policy, first, scope, uses)
        if each.until is not None and first is not None:
            self._mark(each.until, first)
        self.block(each.body, Scope(names, scope))

    def _mark(self, mark: ast.Name, stream: Symbol) -> None:
        marks = self._uses.symbols.marks[stream.name]
        self._uses.use(mark, marks, "MS0211", f"mark of `{stream.name}` named")

    def _state(self, target: ast.Name) -> None:
        if self._machine is None:
            return
        states = self._uses.symbols.states[self._machine.name.text]
        if target.text in states:
            self._uses.found[target] = states[target.text]
            return
        what = f"state of `{self._machine.name.text}` named"
        ends = ("end", "stop", "finish", "finished", "exit", "none", "final")
        helps = ("`next done` ends a machine",) if target.text in ends else ()
        report_unknown(target, (*states, "done"), "MS0206", what, self._uses.sink, helps=helps)

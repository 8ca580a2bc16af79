"""Caches of a fixed `length`: no walk may write more rows to a context than it holds.

Rows are counted from below: a call whose rows have a free dim counts as one row. Each walk begins
with empty contexts, loops run to their bounds.
"""

from collections.abc import Sequence
from dataclasses import field

from mstarc.diagnostics import Diagnostic, Label
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.constants import evaluate
from mstarc.typecheck.dims import Dim, DimVar, constant
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.typed import OpInfo
from mstarc.typecheck.types import dims_of

Key = tuple[str, str]
Held = dict[Key, int]

_WITHOUT_END = 10**9


def check_cache_rows(state: State) -> None:
    """Refuse (MS0536) walks that may write more rows than a cache is long."""
    lengths = {
        node.name: length
        for node in state.nodes.values()
        for setting in node.kv
        if setting.name.text == "length"
        and isinstance(
            length := evaluate(setting.value, state.config, state.resolved, state.sink), int
        )
    }
    if not lengths:
        return
    for walk in state.walks.values():
        counter = _Counter(state, lengths)
        held = counter.body(walk.decl.body.statements, {}, ())
        for key, rows in held.items():
            counter.check(key, rows)


@dataclass(slots=True)
class _Counter:
    """Counts the rows of one walk. `calls` is the last call that wrote a context."""

    state: State
    lengths: dict[str, int]
    calls: dict[Key, ast.OpCall] = field(default_factory=dict)
    reported: set[Key] = field(default_factory=set)

    def body(self, statements: Sequence[ast.Stmt], held: Held, inside: tuple[str, ...]) -> Held:
        """What contexts hold behind statements. `inside` are the walks that run them."""
        for statement in statements:
            held = self.statement(statement, held, inside)
        return held

    def statement(self, statement: ast.Stmt, held: Held, inside: tuple[str, ...]) -> Held:
        match statement:
            case ast.Loop():
                return self.loop(statement, held, inside)
            case ast.When():
                then = self.body(statement.then.statements, dict(held), inside)
                match statement.otherwise:
                    case ast.When() as inner:
                        other = self.statement(inner, dict(held), inside)
                    case ast.Block() as block:
                        other = self.body(block.statements, dict(held), inside)
                    case None:
                        other = held
                return {k: max(then.get(k, 0), other.get(k, 0)) for k in {**then, **other}}
            case ast.Parallel():
                return self.body(statement.body.statements, held, inside)
            case ast.Release(target=target):
                return self.emptied(target, held)
            case ast.Fork(target=target, source=source, condition=None):
                rows = held.get(self.key(source), 0)
                return {**self.emptied(target, held), self.key(target): rows}
            case _:
                return self.calls_of(statement, held, inside)

    def key(self, path: ast.ContextPath) -> Key:
        chosen = self.state.contexts.get(path, path.context.name.text)
        return path.node.text, chosen

    def emptied(self, path: ast.ContextPath, held: Held) -> Held:
        node, context = self.key(path)
        return {
            key: rows
            for key, rows in held.items()
            if key[0] != node or (key[1] != context and not key[1].startswith(f"{context}["))
        }

    def calls_of(self, statement: ast.Stmt, held: Held, inside: tuple[str, ...]) -> Held:
        held = dict(held)
        for call in ast.descendants(statement):
            if isinstance(call, ast.RunCall) and call.walk.text not in inside:
                walk = self.state.walks.get(call.walk.text)
                if walk is not None:
                    held = self.body(walk.decl.body.statements, held, (*inside, call.walk.text))
            if not isinstance(call, ast.OpCall) or call.target.node.text not in self.lengths:
                continue
            op = self.state.nodes[call.target.node.text].ops.get(call.target.op.text)
            if op is None or not op.writes or call not in self.state.contexts:
                continue
            key = (op.node, self.state.contexts[call])
            held[key] = held.get(key, 0) + self.rows(op)
            self.calls[key] = call
            self.check(key, held[key])
        return held

    def rows(self, op: OpInfo) -> int:
        """Rows that a call surely writes."""
        dims = [dim for param in op.params for dim in dims_of(param.type)]
        if op.advance is None or any(v.origin == "free" for dim in dims for v in dim.variables()):
            return 1
        moved = static_dim(op.advance, self.state)
        return max(1, moved.value) if moved is not None and moved.value is not None else 1

    def loop(self, loop: ast.Loop, held: Held, inside: tuple[str, ...]) -> Held:
        passes = self.most(static_dim(loop.bound.count, self.state))
        if passes <= 0:
            return held
        first = self.body(loop.body.statements, dict(held), inside)
        if passes == 1:
            return first
        second = self.body(loop.body.statements, dict(first), inside)
        behind = dict(second)
        for key, rows in second.items():
            growth = rows - first.get(key, 0)
            if growth > 0:
                behind[key] = rows + growth * (passes - 2)
                self.check(key, behind[key])
        return behind

    def most(self, bound: Dim | None) -> int:
        """The most passes of a loop."""

        def largest(var: DimVar) -> Dim | None:
            option = self.state.options.get(var.name)
            if option is None or option.domain is None or option.domain[0] != "range":
                return None
            highest = option.domain[1][1]
            return constant(highest) if isinstance(highest, int) else None

        value = bound.replace(largest).value if bound is not None else None
        return _WITHOUT_END if value is None else value

    def check(self, key: Key, rows: int) -> None:
        node, context = key
        length = self.lengths[node]
        if rows <= length or key in self.reported:
            return
        self.reported.add(key)
        call = self.calls[key]
        many = "without end" if rows >= _WITHOUT_END else f"{rows} rows"
        self.state.sink.report(
            Diagnostic(
                code="MS0536",
                message=f"`{node}.{context}` may grow past its length",
                primary=Label(span=call.span, text=f"may come to hold {many}"),
                notes=(f"its `length` is {length}: a request that fills it ends with an error",),
                helps=(
                    f"write `release {node}.{context}` where its rows are needed no more, or give "
                    "the cache a larger `length`",
                ),
            )
        )

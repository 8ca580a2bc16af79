"""Make statements, policies and blocks; a method a rule, as `build` says."""

from collections.abc import Iterator
from dataclasses import replace

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.syntax import ast
from mstarc.syntax.build_exprs import ExprBuilder

_ONLY_IN_MACHINES: dict[type[ast.Node], tuple[str, str]] = {
    ast.Let: ("let", "give the value as a parameter, or declare the `let` at the top"),
    ast.For: ("for", "walk over parts in a machine's state, and run the walk for each"),
    ast.Match: ("match", "choose by the kind of a part in a machine's state"),
    ast.Each: ("each", "read the stream in a machine's state, or with `pull` in the walk"),
    ast.Next: ("next", "a walk ends by itself; the machine's state says what is next"),
}
_ONLY_IN_WALKS: dict[type[ast.Node], tuple[str, str]] = {
    ast.Send: ("send", "move it into a walk, and `run` that"),
    ast.Emit: ("emit", "move it into a walk, and `run` that"),
    ast.Loop: ("loop", "move the loop into a walk, and `run` that"),
    ast.Parallel: ("parallel", "move the calls into a walk, and `run` that"),
}


class StmtBuilder(ExprBuilder):
    """Builds what stands in walks and states."""

    def block(self, start: int, end: int, *statements: ast.Stmt) -> ast.Block:
        return ast.Block(span=self.span(start, end), statements=statements)

    def assign(self, start: int, end: int, *parts: ast.Target | ast.Rhs) -> ast.Assign:
        *targets, value = parts
        assert not isinstance(value, ast.Discard)
        named = tuple(t for t in targets if isinstance(t, ast.Name | ast.Discard))
        for target in named:
            if isinstance(target, ast.Name):
                self.declared(target)
        return ast.Assign(span=self.span(start, end), targets=named, value=value)

    def target(self, start: int, end: int, name: ast.Name) -> ast.Name:
        return name

    def discard(self, start: int, end: int) -> ast.Discard:
        return ast.Discard(span=self.span(start, end))

    def opcall_on(self, start: int, end: int, call: ast.Expr, context: ast.ContextRef) -> ast.Expr:
        if isinstance(call, ast.OpCall):
            return replace(call, span=self.span(start, end), context=context)
        self.report(
            "MS0123",
            context.span,
            "`on` follows something that is not a call of an op",
            "only a call of an op works on a context",
            ("write it behind the call: `node.op(…) on context`",),
        )
        return call

    def opcall(
        self, start: int, end: int, target: ast.OpRef, args: tuple[ast.Arg, ...]
    ) -> ast.OpCall:
        return ast.OpCall(span=self.span(start, end), target=target, args=args, context=None)

    def call_stmt(
        self, start: int, end: int, call: ast.OpCall, context: ast.ContextRef | None
    ) -> ast.CallStmt:
        span = self.span(start, end)
        if context is not None:
            call = replace(call, span=span, context=context)
        return ast.CallStmt(span=span, call=call)

    def runcall(
        self, start: int, end: int, walk: ast.Name, args: tuple[ast.Arg, ...]
    ) -> ast.RunCall:
        return ast.RunCall(span=self.span(start, end), walk=walk, args=args)

    def run_stmt(self, start: int, end: int, call: ast.RunCall) -> ast.RunStmt:
        return ast.RunStmt(span=self.span(start, end), call=call)

    def pull(self, start: int, end: int, stream: ast.Name) -> ast.Pull:
        return ast.Pull(span=self.span(start, end), stream=stream, or_none=False)

    def pull_or_none(self, start: int, end: int, stream: ast.Name) -> ast.Pull:
        return ast.Pull(span=self.span(start, end), stream=stream, or_none=True)

    def send(self, start: int, end: int, stream: ast.Name, *rest: ast.Expr | None) -> ast.Send:
        *values, condition = rest
        sent = tuple(value for value in values if value is not None)
        return ast.Send(span=self.span(start, end), stream=stream, values=sent, condition=condition)

    def emit(
        self, start: int, end: int, output: ast.Name, value: ast.Expr, condition: ast.Expr | None
    ) -> ast.Emit:
        return ast.Emit(span=self.span(start, end), output=output, value=value, condition=condition)

    def loop(
        self,
        start: int,
        end: int,
        bound: ast.LoopBound,
        index: ast.Name | None,
        carries: tuple[ast.Carry, ...] | None,
        collects: tuple[ast.Collect, ...] | None,
        while_condition: ast.Expr | None,
        body: ast.Block,
        until_condition: ast.Expr | None,
    ) -> ast.Loop:
        return ast.Loop(
            span=self.span(start, end),
            bound=bound,
            index=None if index is None else self.declared(index),
            carries=carries or (),
            collects=collects or (),
            while_condition=while_condition,
            body=body,
            until_condition=until_condition,
        )

    def times(self, start: int, end: int, count: ast.Expr) -> ast.LoopBound:
        return ast.LoopBound(span=self.span(start, end), kind="times", count=count)

    def at_most(self, start: int, end: int, count: ast.Expr) -> ast.LoopBound:
        return ast.LoopBound(span=self.span(start, end), kind="max", count=count)

    def carries(self, start: int, end: int, *carries: ast.Carry) -> tuple[ast.Carry, ...]:
        return carries

    def carry(self, start: int, end: int, name: ast.Name, initial: ast.Expr) -> ast.Carry:
        return ast.Carry(span=self.span(start, end), name=self.declared(name), initial=initial)

    def collects(self, start: int, end: int, *collects: ast.Collect) -> tuple[ast.Collect, ...]:
        return collects

    def collect(self, start: int, end: int, name: ast.Name, value: ast.Expr) -> ast.Collect:
        return ast.Collect(span=self.span(start, end), name=self.declared(name), value=value)

    def parallel(self, start: int, end: int, body: ast.Block) -> ast.Parallel:
        return ast.Parallel(span=self.span(start, end), body=body)

    def when(
        self,
        start: int,
        end: int,
        condition: ast.Expr,
        then: ast.Block,
        otherwise: ast.Block | ast.When | None,
    ) -> ast.When:
        node = ast.When(
            span=self.span(start, end), condition=condition, then=then, otherwise=otherwise
        )
        if isinstance(otherwise, ast.When) and not self.is_shallow(node, otherwise):
            return replace(node, otherwise=None)
        return node

    def fork(
        self,
        start: int,
        end: int,
        target: ast.ContextPath,
        source: ast.ContextPath,
        condition: ast.Expr | None,
    ) -> ast.Fork:
        return ast.Fork(
            span=self.span(start, end), target=target, source=source, condition=condition
        )

    def release(self, start: int, end: int, target: ast.ContextPath) -> ast.Release:
        return ast.Release(span=self.span(start, end), target=target)

    def for_(
        self, start: int, end: int, variable: ast.Name, source: ast.Name, body: ast.Block
    ) -> ast.For:
        return ast.For(
            span=self.span(start, end), variable=self.declared(variable), source=source, body=body
        )

    def match_(self, start: int, end: int, subject: ast.Name, *arms: ast.Arm) -> ast.Match:
        if not arms and not self.has_findings(start, end):
            self.report(
                "MS0115",
                subject.span,
                f"`match {subject.text}` has no arm",
                "no kind of part is handled",
            )
        return ast.Match(span=self.span(start, end), subject=subject, arms=arms)

    def arm(
        self, start: int, end: int, kind: ast.Name, binding: ast.Name, body: ast.Block
    ) -> ast.Arm:
        return ast.Arm(
            span=self.span(start, end), kind=kind, binding=self.declared(binding), body=body
        )

    def each(
        self,
        start: int,
        end: int,
        streams: tuple[ast.Name, ...],
        names: tuple[ast.Name, ...],
        policy: ast.Policy | None,
        until: ast.Name | None,
        body: ast.Block | ast.RunCall,
    ) -> ast.Each:
        for name in names:
            self.declared(name)
        items, rest = names[: len(streams)], names[len(streams) :]
        if len(items) < len(streams) or len(rest) > 1:
            many = f"{len(streams)} streams are" if len(streams) > 1 else "one stream is"
            noun = "name" if len(names) == 1 else "names"
            self.report(
                "MS0120",
                names[-1].span,
                f"{many} read as {len(names)} {noun}",
                "a name for the chunk of each stream, and one more for whether it is the last",
            )
        if isinstance(body, ast.RunCall):
            body = ast.Block(span=body.span, statements=(ast.RunStmt(span=body.span, call=body),))
        return ast.Each(
            span=self.span(start, end),
            streams=streams,
            items=items,
            last=rest[0] if rest else None,
            policy=policy,
            until=until,
            body=body,
        )

    def one_source(self, start: int, end: int, stream: ast.Name) -> tuple[ast.Name, ...]:
        return (stream,)

    def zip_source(self, start: int, end: int, *streams: ast.Name) -> tuple[ast.Name, ...]:
        return streams

    def policy(
        self, start: int, end: int, name: ast.Name | str, args: tuple[ast.Arg, ...]
    ) -> ast.Policy:
        if isinstance(name, str):
            name = ast.Name(span=self.span(start, start + len(name)), text=name)
        for arg in args:
            if arg.name is not None and arg.name.text == "hop":
                self._report_stride(arg.name)
        return ast.Policy(span=self.span(start, end), name=name, args=args)

    def mark(self, start: int, end: int, stream: ast.Name, mark: ast.Name) -> ast.Mark:
        return ast.Mark(span=self.span(start, end), stream=stream, mark=mark)

    def next_(
        self,
        start: int,
        end: int,
        target: ast.Name,
        choice: tuple[ast.Expr, ast.Name | None] | None,
    ) -> ast.Next:
        condition, otherwise = choice or (None, None)
        return ast.Next(
            span=self.span(start, end), target=target, condition=condition, otherwise=otherwise
        )

    def next_if(
        self, start: int, end: int, condition: ast.Expr, otherwise: ast.Name | None
    ) -> tuple[ast.Expr, ast.Name | None]:
        return condition, otherwise

    def check_place(self, body: ast.Block, *, in_walk: bool) -> None:
        """Refuse statements that belong in machines in a walk, and the other way round (MS0109)."""
        misplaced = _ONLY_IN_MACHINES if in_walk else _ONLY_IN_WALKS
        for statement in _statements(body):
            if type(statement) not in misplaced:
                continue
            word, advice = misplaced[type(statement)]
            here, there = ("a walk", "machines") if in_walk else ("a machine's state", "walks")
            start = statement.span.start
            self.report(
                "MS0109",
                self.span(start, start + len(word)),
                f"`{word}` stands in {here}",
                f"belongs in {there}",
                (advice,),
            )

    def _report_stride(self, name: ast.Name) -> None:
        edits = (Edit(span=name.span, text="stride"),)
        self.sink.report(
            Diagnostic(
                code="MS0110",
                message=f"`{name.text}` is not a word of this language",
                primary=Label(span=name.span, text="how far a window moves is its `stride`"),
                helps=("write `stride`",),
                fix=Fix(message="write `stride`", edits=edits, applicability="safe"),
            )
        )


def _statements(body: ast.Block) -> Iterator[ast.Stmt]:
    """All statements under `body`, those in blocks in it included, in source order."""
    for statement in body.statements:
        yield statement
        match statement:
            case ast.Loop() | ast.Parallel() | ast.For() | ast.Each():
                yield from _statements(statement.body)
            case ast.Match():
                for arm in statement.arms:
                    yield from _statements(arm.body)
            case ast.When():
                yield from _branches(statement)


def _branches(when: ast.When) -> Iterator[ast.Stmt]:
    branch: ast.Block | ast.When | None = when
    while isinstance(branch, ast.When):
        yield from _statements(branch.then)
        branch = branch.otherwise
    if branch is not None:
        yield from _statements(branch)

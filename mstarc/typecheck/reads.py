"""How streams are read over a whole machine: marks, reads after the close, chunks that fire."""

from collections.abc import Iterator, Mapping

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.links import Links
from mstarc.typecheck.machines import Ways, body_of
from mstarc.typecheck.rates import most_items
from mstarc.typecheck.state import State
from mstarc.typecheck.typed import StreamInfo, WalkInfo


def check_reads(machines: Mapping[str, Ways], links: Links, state: State) -> None:
    """Check how each stream is read."""
    for ways in machines.values():
        _refuse_late_reads(ways, state)
    everywhere = tuple(
        node
        for declaration in state.resolved.spec.declarations
        if isinstance(declaration, ast.WalkDecl | ast.MachineDecl)
        for node in ast.descendants(declaration)
        if isinstance(node, ast.Mark | ast.Each)
    )
    for stream in state.streams.values():
        symbol = state.resolved.symbols.streams[stream.name]
        _refuse_missing_marks(symbol, stream, everywhere, state)
        _refuse_silent(symbol, stream, machines, state)
    run = {walk for walks in links.walks.values() for walk in walks}
    # What is wrong may be the reason why a walk is not run.
    for walk in () if state.sink.has_errors else state.walks.values():
        if walk.name not in run:
            _report_idle(walk, state)
    for walk in state.walks.values():
        _refuse_sure_pulls_in_loops(walk, state)


def _report_idle(walk: WalkInfo, state: State) -> None:
    state.sink.report(
        Diagnostic(
            code="MS0524",
            message=f"no machine runs the walk `{walk.name}`",
            primary=Label(span=walk.decl.name.span, text="never run"),
            helps=(f"run it in a state: `run {walk.name}(…)`, or remove it",),
        )
    )


def _refuse_missing_marks(
    symbol: Symbol, stream: StreamInfo, everywhere: tuple[ast.Mark | ast.Each, ...], state: State
) -> None:
    """Refuse reads that wait for a mark that nothing ever sets."""
    set_marks = {
        node.mark.text
        for node in everywhere
        if isinstance(node, ast.Mark) and state.resolved.meaning(node.stream) is symbol
    }
    waits: list[tuple[str, Span]] = []
    if stream.policy.mark is not None:
        waits.append((stream.policy.mark, stream.policy.decl.span))
    for node in everywhere:
        if not isinstance(node, ast.Each):
            continue
        if not any(state.resolved.meaning(name) is symbol for name in node.streams):
            continue
        if node.until is not None:
            waits.append((node.until.text, node.until.span))
        policy = state.policies.get(node)
        if policy is not None and policy.mark is not None:
            waits.append((policy.mark, policy.decl.span))
    reported: set[str] = set()
    for mark, span in waits:
        if mark in set_marks or mark not in stream.marks or mark in reported:
            continue
        reported.add(mark)
        declared = state.resolved.symbols.marks[stream.name][mark]
        state.sink.report(
            Diagnostic(
                code="MS0414",
                message=f"nothing ever sets the mark `{mark}` of `{stream.name}`",
                primary=Label(span=span, text="waits for it"),
                helps=(f"set it where the items before it are sent: `mark {stream.name}.{mark}`",),
            ).label(declared.declaration.span, "declared here")
        )


def _refuse_late_reads(ways: Ways, state: State) -> None:
    """Refuse reads of a stream that an earlier `each` has read to its end."""
    reported: set[ast.Node] = set()

    def go(name: str, closed: dict[Symbol, ast.Each], seen: tuple[str, ...]) -> None:
        closed = dict(closed)
        for statement in body_of(ways.states[name]):
            for symbol, node in _sure_reads(statement, state):
                if symbol in closed and node not in reported:
                    reported.add(node)
                    _report_late(symbol, node, closed[symbol], state)
            if isinstance(statement, ast.Each) and statement.until is None:
                for stream in statement.streams:
                    ended = state.resolved.meaning(stream)
                    if ended is not None:
                        closed.setdefault(ended, statement)
        for way in ways.ways:
            if way.source == name and way.target != "done" and way.target not in seen:
                go(way.target, closed, (*seen, way.target))

    first = ways.machine.states[0].name.text
    go(first, {}, (first,))


def _sure_reads(node: ast.Node, state: State) -> Iterator[tuple[Symbol, ast.Node]]:
    """Reads that need the stream to go on: `each`, and `pull` without `or none`."""
    for inner in ast.descendants(node):
        match inner:
            case ast.Each():
                for name in inner.streams:
                    symbol = state.resolved.meaning(name)
                    if symbol is not None:
                        yield symbol, name
            case ast.Pull(or_none=False):
                symbol = state.resolved.meaning(inner.stream)
                if symbol is not None:
                    yield symbol, inner
            case ast.RunCall():
                walk = state.walks.get(inner.walk.text)
                if walk is not None:
                    yield from _sure_reads(walk.decl.body, state)
            case _:
                pass


def _report_late(symbol: Symbol, node: ast.Node, first: ast.Each, state: State) -> None:
    helps = ("`pull … or none` gives none once the stream is closed",)
    state.sink.report(
        Diagnostic(
            code="MS0413",
            message=f"`{symbol.name}` is read after it is closed",
            primary=Label(span=node.span, text="nothing comes any more"),
            helps=helps if isinstance(node, ast.Pull) else ("read the stream in one place",),
        ).label(first.span, "reads until the stream is closed")
    )


def _refuse_sure_pulls_in_loops(walk: WalkInfo, state: State) -> None:
    for loop in ast.descendants(walk.decl.body):
        if not isinstance(loop, ast.Loop):
            continue
        for node in ast.descendants(loop.body):
            if not isinstance(node, ast.Pull) or node.or_none:
                continue
            state.sink.report(
                Diagnostic(
                    code="MS0413",
                    message=f"`{node.stream.text}` may be read after it is closed",
                    primary=Label(span=node.span, text="pulled once a pass"),
                    notes=("nothing says that the sender sends as often as the loop runs",),
                    helps=(f"write `pull {node.stream.text} or none`",),
                ).label(loop.bound.span, "how often the loop runs")
            )


def _refuse_silent(
    symbol: Symbol, stream: StreamInfo, machines: Mapping[str, Ways], state: State
) -> None:
    """Refuse a chunk that needs more items than are ever sent, where the rest is dropped."""
    policy = stream.policy
    if stream.tail not in (None, "drop") or policy.kind not in ("fixed", "sliding"):
        return
    ways = machines.get(stream.producer)
    if ways is None:
        return
    most = most_items(ways.machine, symbol, state)
    if most is None or most >= policy.size or most == 0:
        return
    state.sink.report(
        Diagnostic(
            code="MS0403",
            message=f"no chunk of `{stream.name}` ever fires",
            primary=Label(span=policy.decl.span, text=f"waits for {policy.size} items"),
            notes=("the items that are left when the stream closes are dropped",),
            helps=(f"make the chunk at most {most}, or write `tail short`",),
        ).label(ways.machine.name.span, f"sends at most {most} item{'s' if most > 1 else ''}")
    )

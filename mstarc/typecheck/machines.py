"""Machines: states, ways between them, and values that are set on every way."""

from dataclasses import field

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.names import Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.environment import Env, Held, Lost
from mstarc.typecheck.flow import Flow
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.needs import premise_of
from mstarc.typecheck.state import State
from mstarc.typecheck.transitions import Way, example, ways_of
from mstarc.typecheck.values import Values
from mstarc.typecheck.walks import report_unused


@dataclass(slots=True, kw_only=True)
class Ways:
    """The states of one machine and the transitions between them."""

    machine: ast.MachineDecl
    states: dict[str, ast.StateDecl]
    ways: list[Way] = field(default_factory=list)
    condition: int = TRUE
    premise: int = TRUE


def check_machines(state: State) -> dict[str, Ways]:
    """Check every machine; gives the ways through each, by name."""
    found = {}
    premise = premise_of(state)
    for symbol in state.resolved.symbols.machines.values():
        machine = symbol.of(ast.MachineDecl)
        if not machine.states:
            # The parser has said so.
            continue
        flow = Flow(state, owner=symbol.name, is_machine=True)
        states = {s.name.text: s for s in reversed(machine.states)}
        ways = Ways(machine=machine, states=states, premise=premise)
        if machine.condition is not None:
            ways.condition = flow.condition(machine.condition, Env(), "when a machine runs")
        for entry in machine.states:
            ways.ways.extend(ways_of(entry, machine, premise, flow))
        _check_values(ways, flow)
        _check_reach(ways, state)
        _report_unused_registers(machine, flow.values, state)
        found[symbol.name] = ways
    return found


def body_of(entry: ast.StateDecl) -> tuple[ast.Stmt, ...]:
    """The statements of a state without its transitions."""
    return tuple(s for s in entry.body.statements if not isinstance(s, ast.Next))


def _check_values(ways: Ways, flow: Flow) -> None:
    """Find what is set where each state begins, then check the states with that."""
    state = flow.state
    first = ways.machine.states[0].name.text
    ends: dict[str, Env] = {}
    begin = flow.state.logic.both(ways.premise, ways.condition)
    starts: dict[str, Env] = {first: Env(facts=begin)}
    sink = state.sink
    state.sink = DiagnosticSink()
    rounds = 0
    waiting = [first]
    while waiting and rounds < 8 * len(ways.states) + 8:
        rounds += 1
        name = waiting.pop(0)
        end = starts[name].copy()
        flow.block(
            ast.Block(span=ways.states[name].span, statements=body_of(ways.states[name])), end
        )
        ends[name] = end
        for way in ways.ways:
            if way.source != name or way.target == "done":
                continue
            start = _start(way.target, ways, starts, ends, first, flow)
            if start is not None and not _same(start, starts.get(way.target)):
                starts[way.target] = start
                waiting.append(way.target)
    state.sink = sink
    for entry in ways.machine.states:
        start = starts.get(entry.name.text) or _set_anywhere(ends)
        statements = ast.Block(span=entry.body.span, statements=body_of(entry))
        flow.block(statements, start.copy())


def _set_anywhere(ends: dict[str, Env]) -> Env:
    """Where a state begins that nothing leads to: that is reported, not what follows from it."""
    start = Env()
    for end in ends.values():
        for symbol, held in end.values.items():
            start.set(symbol, Held(held.type, TRUE, held.span))
    return start


def _start(
    target: str, ways: Ways, starts: dict[str, Env], ends: dict[str, Env], first: str, flow: Flow
) -> Env | None:
    """What holds where a state begins: what holds on every way into it."""
    logic = flow.state.logic
    incoming = [
        (ends[way.source], logic.both(starts[way.source].facts, way.condition))
        for way in ways.ways
        if way.target == target and way.source in ends
    ]
    incoming = [(end, taken) for end, taken in incoming if logic.is_possible(taken)]
    if target == first:
        incoming.insert(0, (Env(), logic.both(ways.premise, ways.condition)))
    if not incoming:
        return None
    start = Env(facts=logic.either(*(taken for _, taken in incoming)))
    symbols: dict[Symbol, None] = {}
    for end, _ in incoming:
        symbols.update(dict.fromkeys(end.values))
    for symbol in symbols:
        known = [end.values[symbol] for end, _ in incoming if symbol in end.values]
        held = known[0]
        for other in known[1:]:
            held = Held(flow.join(symbol, held, other), held.present, held.span)
        if all(symbol in end.values and end.values[symbol].present == TRUE for end, _ in incoming):
            start.set(symbol, held)
            continue
        present = TRUE
        for end, taken in incoming:
            there = end.values[symbol].present if symbol in end.values else FALSE
            present = logic.both(present, logic.either(logic.negation(taken), there))
        if not logic.is_possible(logic.both(start.facts, present)):
            remedy = "set it on every way to this place, or use it on the ways on which it is set"
            start.lost[symbol] = Lost("MS0516", held.span, "set only here, on another way", remedy)
            continue
        start.set(symbol, Held(held.type, present, held.span))
    for end, _ in incoming:
        for symbol, lost in end.lost.items():
            if symbol not in start.values:
                start.lost.setdefault(symbol, lost)
    return start


def _same(a: Env, b: Env | None) -> bool:
    if b is None or a.facts != b.facts or a.values.keys() != b.values.keys():
        return False
    return all(
        a.values[s].present == b.values[s].present and a.values[s].type == b.values[s].type
        for s in a.values
    )


def _check_reach(ways: Ways, state: State) -> None:
    """Refuse states that nothing leads to, and states that lead nowhere."""
    if any(not any(way.source == name for way in ways.ways) for name in ways.states):
        # A state without a way is reported already: what follows from it is not.
        return
    first = ways.machine.states[0].name.text
    reached = _closure(
        first, {n: [w.target for w in ways.ways if w.source == n] for n in ways.states}
    )
    for entry in ways.machine.states:
        if entry.name.text not in reached:
            state.sink.report(
                Diagnostic(
                    code="MS0510",
                    message=f"no way leads to the state `{entry.name.text}`",
                    primary=Label(span=entry.name.span, text="never entered"),
                    helps=("remove it, or name it in a `next`",),
                ).label(ways.machine.name.span, f"starts in `{first}`")
            )
    backwards: dict[str, list[str]] = {name: [] for name in ("done", *ways.states)}
    for way in ways.ways:
        backwards[way.target].append(way.source)
    ending = _closure("done", backwards)
    stuck = [e for e in ways.machine.states if e.name.text in reached and e.name.text not in ending]
    if stuck:
        diagnostic = Diagnostic(
            code="MS0513",
            message=f"the machine `{ways.machine.name.text}` cannot come to `done`",
            primary=Label(span=stuck[0].name.span, text="no way from here leads to `done`"),
            notes=("a request is finished when all its machines are done",),
            helps=("end one of the states with `next done`",),
        )
        state.sink.report(diagnostic)
        return
    _refuse_circles(ways, first, state)


def _refuse_circles(ways: Ways, first: str, state: State) -> None:
    """Refuse a circle of states: what holds once in a request holds always, so it never ends."""
    logic = state.logic
    reported: set[str] = set()

    def go(name: str, taken: int, path: tuple[str, ...]) -> None:
        for way in ways.ways:
            if way.source != name or way.target == "done":
                continue
            holds = logic.both(taken, way.condition)
            if way.target in reported or not logic.is_possible_anyway(holds):
                continue
            if way.target not in path:
                go(way.target, holds, (*path, way.target))
                continue
            reported.add(way.target)
            circle = " -> ".join(f"`{n}`" for n in (*path[path.index(way.target) :], way.target))
            state.sink.report(
                Diagnostic(
                    code="MS0517",
                    message=f"the machine `{ways.machine.name.text}` goes round in circles",
                    primary=Label(span=way.statement.span, text=circle),
                    notes=(
                        "conditions of `next` stay what they are in a request: taken once, this "
                        "way is taken for ever",
                        f"as in a request {example(holds, state)}",
                    ),
                    helps=("say it with a `loop` in a walk, or with `each` over a stream",),
                )
            )

    go(first, logic.both(ways.premise, ways.condition), (first,))


def _closure(start: str, edges: dict[str, list[str]]) -> set[str]:
    seen = {start}
    waiting = [start]
    while waiting:
        for target in edges.get(waiting.pop(), []):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def _report_unused_registers(machine: ast.MachineDecl, values: Values, state: State) -> None:
    declared: list[tuple[Symbol, ast.Name]] = []
    for node in ast.descendants(machine):
        if not isinstance(node, ast.Name):
            continue
        symbol = state.resolved.uses.get(node)
        if symbol is None or symbol.declaration is not node or symbol.kind != "value":
            continue
        if not isinstance(symbol.node, ast.Let):
            declared.append((symbol, node))
    report_unused(declared, values, state)

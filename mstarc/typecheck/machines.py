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
from mstarc.typecheck.text import shown
from mstarc.typecheck.values import Values
from mstarc.typecheck.walks import report_unused


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A transition: to `target` (`done` ends the machine) where `condition` (a formula) holds."""

    source: str
    target: str
    condition: int
    statement: ast.Next


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
            ways.ways.extend(_ways_of(entry, machine, premise, flow))
        _check_values(ways, flow)
        _check_reach(ways, state)
        _report_unused_registers(machine, flow.values, state)
        found[symbol.name] = ways
    return found


def body_of(entry: ast.StateDecl) -> tuple[ast.Stmt, ...]:
    """The statements of a state without its transitions."""
    return tuple(s for s in entry.body.statements if not isinstance(s, ast.Next))


def _ways_of(entry: ast.StateDecl, machine: ast.MachineDecl, premise: int, flow: Flow) -> list[Way]:
    """The transitions of a state, which must be exclusive and complete."""
    state, logic = flow.state, flow.state.logic
    nexts = [s for s in entry.body.statements if isinstance(s, ast.Next)]
    _refuse_misplaced(entry, nexts, state)
    ways: list[Way] = []

    def add(statement: ast.Next, target: ast.Name, condition: int) -> None:
        known = state.resolved.symbols.states[machine.name.text]
        if target.text != "done" and target.text not in known:
            return
        ways.append(
            Way(
                source=entry.name.text,
                target=target.text,
                condition=condition,
                statement=statement,
            )
        )

    covered = FALSE
    for statement in nexts:
        condition = TRUE
        if statement.condition is not None:
            # Lets of the state may be named: they are static, so no values are needed.
            condition = _condition(statement.condition, flow)
        add(statement, statement.target, condition)
        if statement.otherwise is not None:
            add(statement, statement.otherwise, logic.negation(condition))
            condition = TRUE
        both = logic.both(premise, covered, condition)
        if logic.is_possible(both):
            _report_two(entry, nexts, statement, state)
            return ways
        covered = logic.either(covered, condition)
    if not nexts:
        if not any(isinstance(n, ast.Next) for n in ast.descendants(entry)):
            state.sink.report(
                Diagnostic(
                    code="MS0511",
                    message=f"the state `{entry.name.text}` does not say what comes next",
                    primary=Label(span=entry.name.span, text="no `next`"),
                    helps=("end it with `next done`, or with the name of another state",),
                )
            )
    elif not logic.implies(premise, covered):
        _report_none(entry, nexts[-1], logic.both(premise, logic.negation(covered)), state)
    return ways


def _condition(condition: ast.Expr, flow: Flow) -> int:
    env = Env()
    why = "the condition of `next`"
    for name in ast.descendants(condition):
        symbol = flow.state.resolved.meaning(name) if isinstance(name, ast.Name) else None
        if symbol is None or symbol.kind != "value":
            continue
        if not isinstance(symbol.node, ast.Let):
            flow.values.read.add(symbol)
            flow.values.static(condition, why)
            return flow.state.logic.atom(f"condition at {condition.span.start}")
        let = symbol.node
        env.set(symbol, Held(flow.values.type_of(let.value, Env()), TRUE, let.name.span))
    return flow.condition(condition, env, why)


def _refuse_misplaced(entry: ast.StateDecl, nexts: list[ast.Next], state: State) -> None:
    for node in ast.descendants(entry.body):
        if isinstance(node, ast.Next) and node not in nexts:
            state.sink.report(
                Diagnostic(
                    code="MS0512",
                    message="`next` stands inside a block",
                    primary=Label(span=node.span, text="not at the end of the state"),
                    helps=(f"end the state with `next {node.target.text} if … else …`",),
                )
            )
    if not nexts:
        return
    statements = entry.body.statements
    first = statements.index(nexts[0])
    for later in statements[first + 1 :]:
        if not isinstance(later, ast.Next):
            state.sink.report(
                Diagnostic(
                    code="MS0512",
                    message=f"a statement of `{entry.name.text}` is never reached",
                    primary=Label(span=later.span, text="stands behind the transition"),
                ).label(nexts[0].span, "leaves the state")
            )
            return


def _report_two(
    entry: ast.StateDecl, nexts: list[ast.Next], second: ast.Next, state: State
) -> None:
    first = nexts[0] if nexts[0] is not second else nexts[-1]
    diagnostic = Diagnostic(
        code="MS0514",
        message=f"two transitions of the state `{entry.name.text}` may both hold",
        primary=Label(span=second.span, text="holds as well"),
    ).label(first.span, "may hold")
    if first.condition is not None and second.condition is None and first.otherwise is None:
        diagnostic = diagnostic.help(
            f"write `next {first.target.text} if … else {second.target.text}`"
        )
    state.sink.report(diagnostic)


def _report_none(entry: ast.StateDecl, last: ast.Next, gap: int, state: State) -> None:
    diagnostic = Diagnostic(
        code="MS0515",
        message=f"no transition of the state `{entry.name.text}` may hold",
        primary=Label(span=last.span, text="not in every request"),
        notes=(f"as in a request {example(gap, state)}",),
    )
    if last.otherwise is None:
        diagnostic = diagnostic.help(f"say where else to go: `next {last.target.text} if … else …`")
    state.sink.report(diagnostic)


def example(formula_: int, state: State) -> str:
    """A request under which a formula holds, in words."""
    values = state.logic.example(formula_)
    if not values:
        return "of any kind"
    # Of an option with a list of values only the one that it has is worth saying.
    equal = {atom.split(" == ")[0] for atom, value in values.items() if value and " == " in atom}
    values = {
        atom: value for atom, value in values.items() if value or atom.split(" == ")[0] not in equal
    }
    parts = [
        f"`{shown(atom)}`" if value else f"not `{shown(atom)}`" for atom, value in values.items()
    ]
    return "where " + " and ".join(parts)


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
            start.lost[symbol] = Lost("MS0516", held.span, "set only here, on another way", "")
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
            if way.target in reported or not logic.is_possible(holds):
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

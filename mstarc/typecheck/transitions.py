"""Transitions of a state: exclusive, complete, and at its end."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.environment import Env, Held
from mstarc.typecheck.flow import Flow
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import wrong_condition
from mstarc.typecheck.text import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A transition: to `target` (`done` ends the machine) where `condition` (a formula) holds."""

    source: str
    target: str
    condition: int
    statement: ast.Next


def ways_of(entry: ast.StateDecl, machine: ast.MachineDecl, premise: int, flow: Flow) -> list[Way]:
    """The transitions of a state, which must be exclusive and complete."""
    state, logic = flow.state, flow.state.logic
    nexts = [s for s in entry.body.statements if isinstance(s, ast.Next)]
    misplaced = _refuse_misplaced(entry, nexts, state)
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

    elsewhere = FALSE
    for inner in misplaced:
        # Where it may have been meant to lead is reached; the rest is told when it stands right.
        meant = logic.unknown(f"condition at {inner.span.start}")
        for target in (inner.target, inner.otherwise):
            if target is not None:
                add(inner, target, meant)
        elsewhere = logic.either(elsewhere, meant)
    covered, is_double = FALSE, False
    for statement in nexts:
        # Of two that hold, which is reported, the first is taken.
        left = logic.negation(logic.either(elsewhere, covered))
        condition = TRUE
        if statement.condition is not None:
            # Lets of the state may be named: they are static, so no values are needed.
            condition = _condition(statement.condition, flow)
        add(statement, statement.target, logic.both(condition, left))
        if statement.otherwise is not None:
            add(statement, statement.otherwise, logic.both(logic.negation(condition), left))
            condition = TRUE
        both = logic.both(premise, covered, condition)
        if not is_double and logic.is_possible_anyway(both):
            _report_two(entry, nexts, statement, state)
            is_double = True
        covered = logic.either(covered, condition)
    if not nexts:
        if not misplaced:
            state.sink.report(
                Diagnostic(
                    code="MS0511",
                    message=f"the state `{entry.name.text}` does not say what comes next",
                    primary=Label(span=entry.name.span, text="no `next`"),
                    helps=("end it with `next done`, or with the name of another state",),
                )
            )
    elif not is_double and not logic.implies(premise, covered):
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
            return wrong_condition(condition, flow.state)
        let = symbol.node
        env.set(symbol, Held(flow.values.type_of(let.value, Env()), TRUE, let.name.span))
    return flow.condition(condition, env, why)


def _refuse_misplaced(entry: ast.StateDecl, nexts: list[ast.Next], state: State) -> list[ast.Next]:
    """Report transitions inside of blocks, which are given, and statements behind one."""
    misplaced = [
        node
        for node in ast.descendants(entry.body)
        if isinstance(node, ast.Next) and node not in nexts
    ]
    for node in misplaced:
        state.sink.report(
            Diagnostic(
                code="MS0512",
                message="`next` stands inside a block",
                primary=Label(span=node.span, text="not at the end of the state"),
                helps=(f"end the state with `next {node.target.text} if … else …`",),
            )
        )
    if not nexts:
        return misplaced
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
            break
    return misplaced


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

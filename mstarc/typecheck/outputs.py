"""Outputs: each must be emitted in every request that wants it, and only work wanted is done."""

from collections.abc import Mapping

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.flow_sends import via_problem
from mstarc.typecheck.links import Links, uses_of
from mstarc.typecheck.logic import FALSE, TRUE
from mstarc.typecheck.machines import Ways, body_of
from mstarc.typecheck.needs import premise_of
from mstarc.typecheck.operators import is_truth
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula, wrong_condition
from mstarc.typecheck.text import text_of
from mstarc.typecheck.transitions import example
from mstarc.typecheck.types import ERROR


def check_outputs(machines: Mapping[str, Ways], links: Links, state: State) -> None:
    """Check `via` ops, that outputs are emitted on every path, and conditions of machines."""
    for symbol in state.resolved.symbols.outputs.values():
        _check_via(symbol.of(ast.OutField), state)
        _check_emitted(symbol, machines, links, state)
    _check_machine_conditions(machines, links, state)


def _check_via(output: ast.OutField, state: State) -> None:
    if output.via is None:
        return
    node = state.nodes.get(output.via.node.text)
    op = node.ops.get(output.via.op.text) if node is not None else None
    if node is None or op is None or node.name in state.misplaced:
        return
    problem = via_problem(node, op)
    if problem is not None:
        state.sink.report(
            Diagnostic(
                code="MS0320",
                message=f"`{op.title}` cannot make the text of `{output.name.text}`",
                primary=Label(span=output.via.span, text=problem),
                helps=(
                    "a host op that takes a token and gives a piece of text: "
                    "`op text(token: i64) -> (piece: text) stateful`",
                ),
            ).label(op.decl.span, "declared here")
        )


def _check_emitted(
    symbol: Symbol, machines: Mapping[str, Ways], links: Links, state: State
) -> None:
    output = symbol.of(ast.OutField)
    emitters = uses_of(symbol, links.emits)
    if not emitters:
        diagnostic = Diagnostic(
            code="MS0519",
            message=f"nothing emits the output `{symbol.name}`",
            primary=Label(span=output.name.span, text="always empty"),
        )
        for walk in state.walks.values():
            for node in ast.descendants(walk.decl.body):
                if isinstance(node, ast.Emit) and state.resolved.meaning(node.output) is symbol:
                    text = "emitted in a walk that no machine runs"
                    diagnostic = diagnostic.label(node.span, text).help(
                        f"run it in a state: `run {walk.title}(…)`"
                    )
        if not diagnostic.labels:
            diagnostic = diagnostic.help(f"emit it in a walk: `emit {symbol.name} <- …`")
        state.sink.report(diagnostic)
        return
    logic = state.logic
    missing = premise_of(state)
    for name in emitters:
        if name not in machines:
            return
        missing = logic.both(missing, _missing_in(symbol, machines[name], state))
    missing = logic.compose(missing, {f"wants {symbol.name}": TRUE})
    if not logic.is_possible_anyway(missing):
        return
    path = _path_of(machines[next(iter(emitters))], missing, state)
    diagnostic = Diagnostic(
        code="MS0520",
        message=f"no walk emits the output `{symbol.name}` on some path",
        primary=Label(span=output.name.span, text="wanted, and never made"),
        notes=(f"as in a request {example(missing, state)}",),
        helps=("emit it on that path as well, or refuse such requests with `need`",),
    )
    if path:
        diagnostic = diagnostic.note(f"which goes {' -> '.join(f'`{name}`' for name in path)}")
    for uses in emitters.values():
        diagnostic = diagnostic.label(uses[0].span, "emitted here")
    state.sink.report(diagnostic)


def _missing_in(symbol: Symbol, ways: Ways, state: State) -> int:
    """Where a machine ends without having emitted an output, or does not run."""
    logic = state.logic
    missing = logic.negation(ways.condition)

    def go(name: str, taken: int, seen: tuple[str, ...]) -> int:
        own = _emits(body_of(ways.states[name]), symbol, {}, state)
        silent = logic.both(taken, logic.negation(own))
        found = FALSE
        for way in ways.ways:
            if way.source != name or way.target in seen:
                continue
            onward = logic.both(silent, way.condition)
            if way.target == "done":
                found = logic.either(found, onward)
            elif logic.is_possible(onward):
                found = logic.either(found, go(way.target, onward, (*seen, way.target)))
        return found

    first = ways.machine.states[0].name.text
    return logic.either(missing, go(first, ways.condition, (first,)))


def _path_of(ways: Ways, missing: int, state: State) -> tuple[str, ...]:
    """The states of a machine that a request takes under which an output is missing."""
    logic = state.logic
    if not logic.is_possible(logic.both(ways.condition, missing)):
        return ()
    path = [ways.machine.states[0].name.text]
    taken = logic.both(ways.condition, missing)
    while path[-1] != "done":
        for way in ways.ways:
            onward = logic.both(taken, way.condition)
            is_open = way.source == path[-1] and way.target not in path
            if is_open and logic.is_possible(onward):
                path.append(way.target)
                taken = onward
                break
        else:
            return ()
    return tuple(path)


def _emits(
    statements: tuple[ast.Stmt, ...], symbol: Symbol, flags: Mapping[str, int], state: State
) -> int:
    """Where one of the statements emits an output; what only a loop's index decides may hold."""
    logic = state.logic
    found = FALSE
    for statement in statements:
        match statement:
            case ast.Emit() if state.resolved.meaning(statement.output) is symbol:
                holds = TRUE
                if statement.condition is not None:
                    holds, _ = _ways(statement.condition, flags, state)
                found = logic.either(found, holds)
            case ast.RunStmt(call=call) | ast.Assign(value=ast.RunCall() as call):
                found = logic.either(found, _emits_in_walk(call, symbol, flags, state))
            case ast.When():
                found = logic.either(found, _emits_in_when(statement, symbol, flags, state))
            case ast.Loop() | ast.Parallel() | ast.For() | ast.Each():
                found = logic.either(found, _emits(statement.body.statements, symbol, flags, state))
            case ast.Match():
                for arm in statement.arms:
                    here = logic.atom(f"has {arm.kind.text}")
                    inner = _emits(arm.body.statements, symbol, flags, state)
                    found = logic.either(found, logic.both(here, inner))
            case _:
                pass
    return found


def _emits_in_when(when: ast.When, symbol: Symbol, flags: Mapping[str, int], state: State) -> int:
    holds, fails = _ways(when.condition, flags, state)
    then = _emits(when.then.statements, symbol, flags, state)
    otherwise = FALSE
    if isinstance(when.otherwise, ast.When):
        otherwise = _emits_in_when(when.otherwise, symbol, flags, state)
    elif when.otherwise is not None:
        otherwise = _emits(when.otherwise.statements, symbol, flags, state)
    logic = state.logic
    return logic.either(logic.both(holds, then), logic.both(fails, otherwise))


def _emits_in_walk(
    call: ast.RunCall, symbol: Symbol, flags: Mapping[str, int], state: State
) -> int:
    walk = state.walks.get(call.walk.text)
    args = state.arguments.get(call)
    if walk is None or args is None or len(args) != len(walk.params):
        return TRUE
    inner = {
        param.name: _ways(arg, flags, state)[0]
        for param, arg in zip(walk.params, args, strict=True)
        if str(param.type) == "flag"
    }
    return _emits(walk.decl.body.statements, symbol, inner, state)


def _ways(condition: ast.Expr, flags: Mapping[str, int], state: State) -> tuple[int, int]:
    """Where a condition may hold and where it may not, over the request; parts may be any."""

    def flag(used: Symbol) -> int | None:
        return flags.get(used.name) if used.kind == "parameter" else None

    logic = state.logic
    if condition in state.wrong:
        wrong = wrong_condition(condition, state)
        return wrong, logic.negation(wrong)
    if not is_truth(state.types.get(condition, ERROR)) and not isinstance(condition, ast.Bool):
        return TRUE, FALSE
    found = formula(condition, state, flag)
    local = [atom for atom in logic.atoms_of(found) if "@" in atom]
    return logic.sometimes(found, local), logic.sometimes(logic.negation(found), local)


def _check_machine_conditions(machines: Mapping[str, Ways], links: Links, state: State) -> None:
    logic = state.logic
    premise = premise_of(state)
    for name, ways in machines.items():
        if ways.machine.condition is None:
            _refuse_idle_machine(name, ways, machines, links, state)
        for stream in state.streams.values():
            if stream.consumer != name or stream.producer not in machines:
                continue
            alone = logic.both(
                premise, ways.condition, logic.negation(machines[stream.producer].condition)
            )
            if not logic.is_possible_anyway(alone):
                continue
            source = machines[stream.producer].machine
            assert source.condition is not None
            state.sink.report(
                Diagnostic(
                    code="MS0522",
                    message=f"the machine `{name}` may run without `{stream.producer}`",
                    primary=Label(
                        span=ways.machine.name.span, text=f"reads the stream `{stream.name}`"
                    ),
                    notes=(f"as in a request {example(alone, state)}",),
                    helps=(f"give `{name}` the same `when`",),
                ).label(
                    source.condition.span, f"`{stream.producer}`, which sends to it, runs only then"
                )
            )


def _refuse_idle_machine(
    name: str, ways: Ways, machines: Mapping[str, Ways], links: Links, state: State
) -> None:
    """Refuse a machine without `when` in whose requests perhaps nobody wants what it makes."""
    logic = state.logic
    outputs = [
        state.resolved.symbols.outputs[use.name].of(ast.OutField) for use in links.emits[name]
    ]
    readers = [
        machines[stream.consumer]
        for stream in state.streams.values()
        if stream.producer == name and stream.consumer in machines
    ]
    if not outputs and not readers:
        return
    unwanted = premise_of(state)
    for output in outputs:
        wanted = logic.atom(f"wants {output.name.text}") if output.optional else TRUE
        unwanted = logic.both(unwanted, logic.negation(wanted))
    for reader in readers:
        unwanted = logic.both(unwanted, logic.negation(reader.condition))
    if not logic.is_possible_anyway(unwanted):
        return
    diagnostic = Diagnostic(
        code="MS0521",
        message=f"the machine `{name}` works for an output that may be unwanted",
        primary=Label(span=ways.machine.name.span, text="runs in every request"),
    )
    if outputs:
        optional = outputs[0]
        diagnostic = diagnostic.label(optional.span, "optional")
        diagnostic = diagnostic.help(f"write `machine {name} when wants {optional.name.text}`")
    else:
        condition = readers[0].machine.condition
        assert condition is not None
        diagnostic = diagnostic.label(condition.span, "reads what it sends only then")
        diagnostic = diagnostic.help(f"write `machine {name} when {text_of(condition)}`")
    state.sink.report(diagnostic)

"""Loops and parallel branches of walks."""

from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.dims import Dim, DimVar
from mstarc.typecheck.early_reads import loop_around
from mstarc.typecheck.environment import Env, Held, Lost
from mstarc.typecheck.fitting import Fitter
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.shapes import refuse_optional
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import (
    ERROR,
    FLOAT,
    INT,
    OptionalType,
    TensorType,
    Type,
    with_leading,
)

if TYPE_CHECKING:
    from mstarc.typecheck.flow import Flow


def check_loop(flow: "Flow", loop: ast.Loop, env: Env) -> None:
    """Check a loop; behind it, `env` has the carried and the collected values."""
    state = flow.state
    _check_bound(flow, loop, env)
    body = env.copy()
    for carry in loop.carries:
        type_ = _tensor(flow.values.type_of(carry.initial, env))
        if isinstance(type_, OptionalType):
            refuse_optional(carry.initial, type_, state)
            type_ = type_.item
        flow.set(carry.name, type_, TRUE, body)
    started = {state.resolved.uses[carry.name]: carry for carry in loop.carries}
    initial = {symbol: body.values[symbol] for symbol in started}
    if loop.while_condition is not None:
        flow.values.loop_condition(loop.while_condition, body)
    _refuse_two_conditions(flow, loop)
    inside = _set_in(loop.body, flow)
    _refuse_lost(flow, inside, started, env)
    flow.block(loop.body, body)
    if loop.until_condition is not None:
        flow.values.loop_condition(loop.until_condition, body)
    for symbol, carry in started.items():
        _check_carried(flow, carry, initial[symbol], body.values[symbol], body)
    collected: list[tuple[ast.Collect, Type]] = []
    for collect in loop.collects:
        type_ = _tensor(flow.values.type_of(collect.value, body))
        if isinstance(type_, OptionalType):
            refuse_optional(collect.value, type_, state)
            type_ = type_.item
        collected.append((collect, with_leading(type_, _passes(flow, loop, collect))))
    for symbol, name in inside.items():
        if symbol not in started and symbol not in env.values:
            env.lost[symbol] = Lost(
                "MS0503",
                name.span,
                "set inside a loop",
                f"`carry {symbol.name} = …` hands it on, `collect all = {symbol.name}` gathers it",
            )
    for symbol in started:
        env.set(symbol, initial[symbol])
    for collect, type_ in collected:
        flow.set(collect.name, type_, TRUE, env)


def check_parallel(flow: "Flow", parallel: ast.Parallel, env: Env) -> None:
    """Check branches that must not depend on each other; `env` then has what all of them set."""
    statements = parallel.body.statements
    sets = [_set_in(statement, flow) for statement in statements]
    writers: dict[tuple[str, str], ast.Node] = {}
    merged = env.copy()
    for index, statement in enumerate(statements):
        branch = env.copy()
        for other, names in enumerate(sets):
            if other == index:
                continue
            for symbol, name in names.items():
                branch.values.pop(symbol, None)
                branch.lost[symbol] = Lost(
                    "MS0506",
                    name.span,
                    "set in another branch of the same `parallel`",
                    "branches run side by side: move one of the two out of the block",
                )
        before = len(flow.values.calls)
        flow.statement(statement, branch)
        for call in flow.values.calls[before:]:
            _check_writer(flow, call, statement, writers)
        for symbol in sets[index]:
            if symbol not in branch.values:
                continue
            if any(symbol in names for names in sets[:index]):
                _refuse_two_setters(flow, symbol, branch.values[symbol], merged)
            merged.set(symbol, branch.values[symbol])
    env.values.update(merged.values)
    env.lost.update(
        {symbol: lost for symbol, lost in merged.lost.items() if symbol not in env.values}
    )


def _check_bound(flow: "Flow", loop: ast.Loop, env: Env) -> None:
    count = loop.bound.count
    if not flow.values.whole_number(count, env, "the bound of a loop"):
        return
    state = flow.state
    asked = (count, *ast.descendants(count))
    for name in (part for part in asked if isinstance(part, ast.Name)):
        symbol = state.resolved.meaning(name)
        if symbol is not None and symbol.kind == "index":
            state.error(
                "MS0504",
                name.span,
                "the bound of a loop is known when the request is admitted",
                f"`{name.text}` changes from pass to pass",
            )
            return
    number = static_dim(count, state)
    if number is not None and number.value is not None and number.value < 0:
        flow.state.error(
            "MS0504",
            count.span,
            f"a loop cannot run {text_of(count)} times",
            f"this is {number.value}",
        )


def _refuse_two_conditions(flow: "Flow", loop: ast.Loop) -> None:
    if loop.while_condition is None or loop.until_condition is None:
        return
    flow.state.sink.report(
        Diagnostic(
            code="MS0523",
            message="a loop has `while` and `until`",
            primary=Label(span=loop.until_condition.span, text="tested after each pass"),
            helps=("say both with one of them: a loop ends in one way, or at its bound",),
        ).label(loop.while_condition.span, "tested before each pass")
    )


def _is_within(found: Diagnostic, flow: "Flow", carry: ast.Carry) -> bool:
    """Whether a finding stands in the loop of `carry`."""
    loop = loop_around(carry.span, flow.state.resolved.spec)
    span = found.primary.span
    return loop is not None and loop.span.start <= span.start and span.end <= loop.span.end


def _check_carried(flow: "Flow", carry: ast.Carry, start: Held, end: Held, env: Env) -> None:
    sink = flow.state.sink
    name = carry.name.text
    if end is start:
        if any(
            found.code == "MS0502" and _is_within(found, flow, carry) for found in sink.diagnostics
        ):
            # What the loop reads too early is what should have been carried.
            return
        sink.report(
            Diagnostic(
                code="MS0505",
                message=f"the loop never sets `{name}`, which it carries",
                primary=Label(span=carry.span, text="the same in every pass"),
                helps=(
                    f"set `{name}` in the loop, or leave it out of `carry`: values from before a "
                    "loop are seen inside",
                ),
            )
        )
        return
    if not flow.state.logic.implies(env.facts, end.present) or isinstance(end.type, OptionalType):
        sink.report(
            Diagnostic(
                code="MS0307",
                message=f"`{name}` may be none at the end of a pass, and the next one needs it",
                primary=Label(span=end.span, text="not always there"),
            ).label(carry.span, "carried to the next pass")
        )
        return
    misfit = Fitter(0).fit(start.type, end.type)
    if misfit is not None:
        sink.report(
            Diagnostic(
                code="MS0308",
                message=f"`{name}` changes its type in the loop",
                primary=Label(span=end.span, text=misfit.reason),
                notes=("each pass hands its values to the next one, so their types stay the same",),
            ).label(carry.span, f"begins as `{start.type}`")
        )


def _passes(flow: "Flow", loop: ast.Loop, collect: ast.Collect) -> Dim:
    """How many values a loop collects: known for `times`, else only at run time."""
    size = static_dim(loop.bound.count, flow.state) if loop.bound.kind == "times" else None
    if size is None or loop.until_condition is not None or loop.while_condition is not None:
        return flow.state.fresh_dim(collect, DimVar("?", 0, "unknown"), "unknown")
    return size


def _refuse_lost(
    flow: "Flow",
    inside: dict[Symbol, ast.Name],
    carried: dict[Symbol, ast.Carry],
    env: Env,
) -> None:
    for symbol, name in inside.items():
        held = env.values.get(symbol)
        if held is None or symbol in carried:
            continue
        flow.state.sink.report(
            Diagnostic(
                code="MS0507",
                message=f"what the loop sets `{symbol.name}` to is lost",
                primary=Label(span=name.span, text="set in a loop that does not carry it"),
                notes=(
                    "each pass begins with the values from before the loop, and what it carries",
                ),
                helps=(
                    f"write `carry {symbol.name} = {symbol.name}`, or use another name in the loop",
                ),
            ).label(held.span, "set before the loop")
        )


def _set_in(node: ast.Node, flow: "Flow") -> dict[Symbol, ast.Name]:
    """The values that a statement or block sets, each with the first place."""
    found: dict[Symbol, ast.Name] = {}
    for inner in ast.descendants(node):
        names: tuple[ast.Node, ...] = ()
        match inner:
            case ast.Assign():
                names = inner.targets
            case ast.Loop():
                names = (
                    *(carry.name for carry in inner.carries),
                    *(collect.name for collect in inner.collects),
                )
            case _:
                pass
        for name in names:
            if isinstance(name, ast.Name):
                found.setdefault(flow.state.resolved.uses[name], name)
    return found


def _check_writer(
    flow: "Flow",
    call: ast.OpCall,
    branch: ast.Node,
    writers: dict[tuple[str, str], ast.Node],
) -> None:
    """Refuse a second branch that writes a context."""
    state = flow.state
    node = state.nodes.get(call.target.node.text)
    op = node.ops.get(call.target.op.text) if node is not None else None
    if op is None or not op.writes:
        return
    chosen = state.contexts.get(call)
    if call.context is not None and call.context.name.text != (chosen or "").split("[")[0]:
        return  # it works on no such context, which is reported
    written = (chosen, *op.writes[1:]) if chosen is not None else op.writes
    for context in written:
        key = (op.node, context)
        writers.setdefault(key, branch)
        first = next((w for k, w in writers.items() if w is not branch and _overlap(k, key)), None)
        if first is None:
            continue
        state.sink.report(
            Diagnostic(
                code="MS0534",
                message=f"two branches of `parallel` write `{op.node}.{context.split('[')[0]}`",
                primary=Label(span=call.span, text="writes it as well"),
                notes=(
                    "branches run side by side: which of the two would come first is not known",
                ),
                helps=("choose another context for one of them, or move it behind the block",),
            ).label(first.span, "the branch that writes it first")
        )


def _overlap(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two contexts may be one, as `dream[0]` and `dream[n]`; `dream[1]` is another one."""
    if one[0] != other[0]:
        return False
    (name, _, index), (other_name, _, at) = one[1].partition("["), other[1].partition("[")
    apart = index[:-1].isdigit() and at[:-1].isdigit() and index != at
    return name == other_name and not apart


def _refuse_two_setters(flow: "Flow", symbol: Symbol, held: Held, merged: Env) -> None:
    first = merged.values.get(symbol)
    diagnostic = Diagnostic(
        code="MS0506",
        message=f"two branches of `parallel` set `{symbol.name}`",
        primary=Label(span=held.span, text="set in this branch as well"),
        helps=("give one of the two another name",),
    )
    if first is not None:
        diagnostic = diagnostic.label(first.span, "set here first")
    flow.state.sink.report(diagnostic)


def _tensor(type_: Type) -> Type:
    """A number of the host becomes a tensor where a loop carries or collects it."""
    if type_ == INT:
        return TensorType("i64")
    if type_ == FLOAT:
        return TensorType("f32")
    return ERROR if type_ == ERROR else type_

"""Calls of ops and runs of walks: arguments against parameters, and what comes back."""

from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast
from mstarc.typecheck.arguments import match_arguments, meant_order, report_order
from mstarc.typecheck.arrays import chosen_context
from mstarc.typecheck.chunks import chunk_misfit
from mstarc.typecheck.dims import Dim, DimVar, constant
from mstarc.typecheck.environment import Env
from mstarc.typecheck.fitting import Fitter, Misfit
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.presence import absence
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula, static_dim
from mstarc.typecheck.tables import check_entries
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import Call, ContextInfo, OpInfo, ParamInfo, Signature, WalkInfo
from mstarc.typecheck.types import (
    ERROR,
    INT,
    FlagType,
    NoneType,
    OptionalType,
    ScalarType,
    TensorType,
    Type,
    map_dims,
    optional,
    with_leading,
)

if TYPE_CHECKING:
    from mstarc.typecheck.values import Values


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result of a call: its type, and the condition (a formula) under which it is there."""

    name: str
    type: Type
    present: int


def check_op_call(call: ast.OpCall, env: Env, values: "Values") -> list[Outcome] | None:
    """The results of an op call; None where it is not known which op is meant."""
    state = values.state
    node = state.resolved.meaning(call.target.node)
    info = state.nodes.get(node.name) if node is not None else None
    op = info.ops.get(call.target.op.text) if info is not None else None
    if info is None or op is None:
        for arg in call.args:
            values.type_of(arg.value, env)
        return None
    context = _context(call, op, info.contexts, env, values)
    is_one = call.context is not None and call.context.index is not None
    count = context.count if context is not None and not is_one else None
    values.calls.append(call)
    return _check(call, call.args, op, count, env, values)


def check_run(call: ast.RunCall, env: Env, values: "Values") -> list[Outcome] | None:
    """The results of running a walk; None where there is no such walk."""
    symbol = values.state.resolved.meaning(call.walk)
    walk = values.state.walks.get(symbol.name) if symbol is not None else None
    if walk is None:
        for arg in call.args:
            values.type_of(arg.value, env)
        return None
    values.state.runs[call] = env.facts
    _refuse_changing_bounds(call, walk, values.state)
    return _check(call, call.args, walk, None, env, values)


def _refuse_changing_bounds(call: ast.RunCall, walk: WalkInfo, state: State) -> None:
    """Refuse (MS0504) a loop's index for a parameter that bounds a loop of the walk."""
    bounds = [
        loop.bound.count for loop in ast.descendants(walk.decl.body) if isinstance(loop, ast.Loop)
    ]
    bounding = {
        part.text
        for count in bounds
        for part in (count, *ast.descendants(count))
        if isinstance(part, ast.Name)
    }
    for param, arg in zip(walk.params, call.args, strict=False):
        name = arg.name.text if arg.name is not None else param.name
        if name not in bounding:
            continue
        for part in (arg.value, *ast.descendants(arg.value)):
            symbol = state.resolved.meaning(part) if isinstance(part, ast.Name) else None
            if symbol is not None and symbol.kind == "index":
                state.error(
                    "MS0504",
                    part.span,
                    "the bound of a loop is known when the request is admitted",
                    f"`{name}` of `{walk.title}` bounds a loop",
                )


def _check(
    call: Call,
    args: tuple[ast.Arg, ...],
    signature: Signature,
    count: ast.Expr | None,
    env: Env,
    values: "Values",
) -> list[Outcome]:
    state = values.state
    given = match_arguments(call, args, signature, state)
    types = {id(arg): values.type_of(arg.value, env) for arg in args}
    fitter = Fitter(signature.scope)
    over: list[bool] = []
    flags: dict[str, int] = {}
    wanted: dict[str, Type] = {}
    for param in signature.params:
        arg = given.get(param.name)
        expr = arg.value if arg is not None else param.default
        found = types[id(arg)] if arg is not None else _default_type(param)
        wanted[param.name] = _wanted(param.type, found, count, state)
        over.append(wanted[param.name] is not param.type)
        if isinstance(param.type, FlagType):
            flags[param.name] = _flag(expr, found, param, values)
        elif param.type == INT and expr is not None:
            size = static_dim(expr, state)
            number = DimVar(param.name, signature.scope, "request")
            fitter.bound[number] = (
                size if size is not None else state.fresh_dim(expr, number, "unknown")
            )
        fitter.bind(wanted[param.name], found)
    misfits: list[tuple[ParamInfo, ast.Arg, Misfit]] = []
    for param in signature.params:
        arg = given.get(param.name)
        if arg is None:
            continue
        check_entries(arg.value, env, state)
        misfit = fitter.fit(wanted[param.name], types[id(arg)])
        if misfit is not None:
            misfits.append((param, arg, misfit))
    found_types = [types[id(arg)] for arg in args]
    meant = meant_order(args, signature, found_types, wanted) if len(misfits) > 1 else None
    if meant is not None:
        report_order(call, misfits[0][1], misfits[0][2], meant, signature, state)
    else:
        for param, arg, misfit in misfits:
            _report(misfit, arg.value, param, wanted[param.name], signature, env, values)
    ordered = [
        given[param.name].value if param.name in given else param.default
        for param in signature.params
    ]
    is_broken = ERROR in types.values()
    state.arguments[call] = tuple(expr for expr in ordered if expr is not None)
    if count is not None and isinstance(call, ast.OpCall):
        state.over[call] = tuple(over)
    return [
        Outcome(
            result.name,
            _result_type(result.type, call, count, fitter, state, is_broken=is_broken),
            _presence(result.condition, flags, state),
        )
        for result in signature.results
    ]


def _default_type(param: ParamInfo) -> Type:
    match param.default:
        case ast.Bool():
            return ScalarType("bool")
        case ast.Int():
            return INT
        case ast.Float():
            return ScalarType("float")
        case _:
            return ERROR


def _wanted(type_: Type, found: Type, count: ast.Expr | None, state: State) -> Type:
    """What a parameter wants. In an array of contexts each has its own value, or all share one."""
    item = type_.item if isinstance(type_, OptionalType) else type_
    if count is None or not isinstance(found, TensorType):
        return type_
    leading = static_dim(count, state)
    led = with_leading(item, leading if leading is not None else constant(1))
    if not isinstance(led, TensorType) or len(led.dims) != len(found.dims):
        return type_
    return optional(led) if isinstance(type_, OptionalType) else led


def _result_type(
    type_: Type,
    call: Call,
    count: ast.Expr | None,
    fitter: Fitter,
    state: State,
    *,
    is_broken: bool,
) -> Type:
    """A result's type with the dims that the call bound; what nothing bound is new, or unknown in
    a call that `is_broken`."""
    lacking: list[DimVar] = []

    def bound(var: DimVar) -> Dim | None:
        if var in fitter.bound:
            return fitter.bound[var]
        if var.origin == "unknown":
            return state.fresh_dim(call, var, "unknown")
        if var.scope == fitter.scope and var.scope != 0:
            lacking.append(var)
            return state.fresh_dim(call, var, "free")
        return None

    result = map_dims(type_, bound)
    if is_broken and lacking:
        return ERROR
    if count is None:
        return result
    leading = static_dim(count, state)
    return with_leading(result, leading if leading is not None else constant(1))


def _flag(expr: ast.Expr | None, found: Type, param: ParamInfo, values: "Values") -> int:
    """The condition that a flag stands for in this call."""
    if expr is None or (found == ERROR and expr is not param.default):
        return TRUE
    if not isinstance(found, FlagType | ScalarType):
        return values.state.logic.atom(f"flag {param.name}")
    if expr is not param.default and not values.static(expr, f"the flag `{param.name}`"):
        return values.state.logic.atom(f"flag {param.name}")
    return formula(expr, values.state)


def _presence(condition: ast.Expr | None, flags: dict[str, int], state: State) -> int:
    if condition is None:
        return TRUE

    def flag(symbol: Symbol) -> int | None:
        return flags.get(symbol.name) if symbol.kind == "parameter" else None

    return formula(condition, state, flag)


def _context(
    call: ast.OpCall, op: OpInfo, contexts: tuple[ContextInfo, ...], env: Env, values: "Values"
) -> ContextInfo | None:
    """The context that a call works on, noted for lowering."""
    state = values.state
    by_name = {context.name: context for context in contexts}
    chosen = call.context
    if not by_name:
        if chosen is not None:
            state.sink.report(
                Diagnostic(
                    code="MS0531",
                    message=f"`{op.title}` works on no context",
                    primary=Label(span=chosen.span, text="chosen here"),
                    notes=("only nodes of engine `kv_cache` have contexts",),
                )
            )
        return None
    own = (*op.writes, *op.reads)[0]
    name = own
    if chosen is not None:
        if not op.is_movable and chosen.name.text not in (*op.writes, *op.reads):
            state.sink.report(
                Diagnostic(
                    code="MS0531",
                    message=f"`{op.title}` does not work on `{chosen.name.text}`",
                    primary=Label(span=chosen.span, text="chosen here"),
                    helps=("effects without names, as in `writes`, leave the choice to the call",),
                ).label(op.decl.name.span, f"names its contexts: `{own}`")
            )
        elif chosen.name.text in by_name:
            name = chosen.name.text
    info = by_name.get(name)
    if chosen is not None and chosen.name.text == name:
        name = chosen_context(chosen, info, env, values)
    state.contexts[call] = name
    return info


def _report(
    misfit: Misfit,
    expr: ast.Expr,
    param: ParamInfo,
    wanted: Type,
    signature: Signature,
    env: Env,
    values: "Values",
) -> None:
    state = values.state
    text = text_of(expr)
    if misfit.code == "MS0307":
        held, when = absence(expr, env, state)
        # In a machine a value that is not there on some way has not been set on it.
        is_unset = values.is_machine and held is not None and not _may_be_none(held.type)
        what = "may not be set" if is_unset else "may be none"
        verb = "set" if is_unset else "there"
        diagnostic = Diagnostic(
            code="MS0516" if is_unset else "MS0307",
            message=f"`{text}` {what} where `{signature.title}` needs it",
            primary=Label(
                span=expr.span, text=f"{verb} only if `{when}`" if when else f"not always {verb}"
            ),
            helps=(
                "set it on every way to this place"
                if is_unset
                else "use it under the condition that it is there, or let the parameter be "
                "`or none`",
            ),
        )
        if held is not None:
            if not state.logic.is_possible(state.logic.both(held.present, env.facts)):
                diagnostic = diagnostic.note("under what holds here it is never there")
            diagnostic = diagnostic.label(held.span, f"`{text}` is set here")
        state.sink.report(diagnostic.label(param.decl.span, f"`{wanted}`, without `or none`"))
        return
    verb = "takes" if not isinstance(wanted, FlagType) else "takes a"
    shown = f"`{wanted}`" if not isinstance(wanted, FlagType) else "flag"
    if (chunk := chunk_misfit(misfit, expr, state)) is not None:
        state.sink.report(chunk.label(param.decl.span, f"{verb} {shown}"))
        return
    diagnostic = Diagnostic(
        code=misfit.code,
        message=f"`{text}` does not fit `{param.name}` of `{signature.title}`",
        primary=Label(span=expr.span, text=misfit.reason),
    ).label(param.decl.span, f"{verb} {shown}")
    if isinstance(expr, ast.Name):
        symbol = state.resolved.meaning(expr)
        held = env.values.get(symbol) if symbol is not None else None
        if held is not None and held.span != expr.span:
            diagnostic = diagnostic.label(held.span, f"`{text}` comes from here")
    if misfit.code == "MS0306":
        diagnostic = diagnostic.help("let an op of a host node make tensors of it")
    state.sink.report(diagnostic)


def _may_be_none(type_: Type) -> bool:
    return isinstance(type_, OptionalType | NoneType)

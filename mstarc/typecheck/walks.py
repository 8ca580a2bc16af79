"""Walks: signatures first, since walks may run each other, then bodies."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.declared import declared_type
from mstarc.typecheck.dims import variable
from mstarc.typecheck.environment import Env, Held
from mstarc.typecheck.fitting import Fitter
from mstarc.typecheck.flow import Flow
from mstarc.typecheck.links import Links
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.ops import check_param_type
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula
from mstarc.typecheck.text import shown, text_of
from mstarc.typecheck.typed import ParamInfo, ResultInfo, WalkInfo
from mstarc.typecheck.types import (
    ERROR,
    FlagType,
    MediaType,
    OptionalType,
    PartsType,
    ScalarType,
    TupleType,
    dims_of,
)
from mstarc.typecheck.values import Values


def declare_walks(links: Links, state: State) -> None:
    """Note the signature of every walk, and refuse walks that run each other in a circle."""
    for symbol in state.resolved.symbols.walks.values():
        state.walks[symbol.name] = _signature(symbol.of(ast.WalkDecl), state)
    for circle in links.recursive:
        decl = state.resolved.symbols.walks[circle[0]].of(ast.WalkDecl)
        path = " -> ".join(f"`{name}`" for name in (*circle, circle[0]))
        diagnostic = Diagnostic(
            code="MS0508",
            message=f"the walk `{circle[0]}` runs itself",
            primary=Label(span=decl.name.span, text=path),
            helps=("say it with a `loop`, which has a bound",),
        )
        for name in circle[1:]:
            other = state.resolved.symbols.walks[name]
            diagnostic = diagnostic.label(other.declaration.span, "on the way")
        state.sink.report(diagnostic)


def check_walks(state: State) -> None:
    """Check the body of every walk."""
    for walk in state.walks.values():
        _check_walk(walk, state)


def report_unused(declared: list[tuple[Symbol, ast.Name]], values: Values, state: State) -> None:
    """Note values that nothing reads."""
    for symbol, name in declared:
        if symbol in values.read:
            continue
        what = "the parameter" if symbol.kind == "parameter" else "the value"
        state.unused.append(
            Diagnostic(
                code="MS0501",
                message=f"{what} `{name.text}` is never used",
                primary=Label(span=name.span, text="nothing reads it"),
                helps=(
                    "remove the parameter, and what is given for it"
                    if symbol.kind == "parameter"
                    else "use it, or write `_` in its place",
                ),
            )
        )


def _signature(walk: ast.WalkDecl, state: State) -> WalkInfo:
    scope = state.new_scope()
    params = []
    env = Env()
    for param in walk.params:
        type_ = check_param_type(param, scope, state)
        inner = type_.item if isinstance(type_, OptionalType) else type_
        if isinstance(inner, MediaType | PartsType | TupleType):
            state.sink.report(
                Diagnostic(
                    code="MS0306",
                    message=f"a walk cannot take `{type_}`",
                    primary=Label(span=param.type.span, text="walks work on tensors and numbers"),
                    helps=(
                        ("let a machine make tensors of it first, with an op of a host node",)
                        if not isinstance(inner, TupleType)
                        else ("take its fields one by one",)
                    ),
                )
            )
            type_ = ERROR
        params.append(
            ParamInfo(name=param.name.text, type=type_, default=param.default, decl=param)
        )
        env.set(state.resolved.uses[param.name], Held(type_, TRUE, param.name.span))
    results = []
    for result in walk.results:
        type_ = declared_type(result.type, scope, state, tensors=True)
        if isinstance(type_, ScalarType | FlagType | TupleType | MediaType | PartsType):
            state.error(
                "MS0301", result.type.span, f"a walk cannot give `{type_}`", "walks give tensors"
            )
            type_ = ERROR
        if result.condition is not None:
            Values(state).condition(result.condition, env, "whether a result is there")
        results.append(
            ResultInfo(name=result.name.text, type=type_, condition=result.condition, decl=result)
        )
    return WalkInfo(
        name=walk.name.text,
        params=tuple(params),
        results=tuple(results),
        aliases=tuple(alias.value for alias in walk.aliases),
        scope=scope,
        decl=walk,
    )


def _check_walk(walk: WalkInfo, state: State) -> None:
    flow = Flow(state, owner=walk.name, is_machine=False)
    env = Env()
    for param in walk.params:
        symbol = state.resolved.uses[param.decl.name]
        env.set(symbol, Held(param.type, TRUE, param.decl.name.span))
        state.types[param.decl.name] = param.type
    flow.block(walk.decl.body, env)
    for result in walk.results:
        _check_result(walk, result, env, flow)
    declared: dict[Symbol, ast.Name] = {}
    for node in ast.descendants(walk.decl):
        used = state.resolved.uses.get(node) if isinstance(node, ast.Name) else None
        if used is None or used.declaration is not node:
            continue
        if used.kind in ("parameter", "value"):
            declared[used] = used.declaration
    for result in walk.results:
        by_name = [s for s in env.values if s.name == result.name]
        flow.values.read.update(by_name)
    # A parameter that only a dim of the signature names is used as well.
    dims = {
        var.name
        for type_ in (*(p.type for p in walk.params), *(r.type for r in walk.results))
        for dim in dims_of(type_)
        for var in dim.variables()
    }
    flow.values.read.update(s for s in declared if s.kind == "parameter" and s.name in dims)
    for result in walk.results:
        if result.condition is not None:
            flow.values.read.update(
                s
                for name in ast.descendants(result.condition)
                if isinstance(name, ast.Name) and (s := state.resolved.meaning(name)) is not None
            )
    report_unused(list(declared.items()), flow.values, state)


def _check_result(walk: WalkInfo, result: ResultInfo, env: Env, flow: Flow) -> None:
    state = flow.state
    found = [(symbol, held) for symbol, held in env.values.items() if symbol.name == result.name]
    if not found:
        lost = [lost for symbol, lost in env.lost.items() if symbol.name == result.name]
        diagnostic = Diagnostic(
            code="MS0509",
            message=f"the walk `{walk.name}` never sets its result `{result.name}`",
            primary=Label(span=result.decl.name.span, text="promised here"),
            helps=(lost[0].help,) if lost else (f"set it: `{result.name} = …`",),
        )
        if lost:
            diagnostic = diagnostic.label(lost[0].span, lost[0].reason)
        state.sink.report(diagnostic)
        return
    _, held = found[0]
    promised = TRUE if result.condition is None else formula(result.condition, state)
    if not state.logic.implies(promised, held.present):
        atoms = [shown(atom) for atom in state.logic.atoms_of(held.present)]
        condition = result.condition
        promise = "promised here" if condition is None else f"promised if `{text_of(condition)}`"
        remedy = (
            f"write `{result.name}: {result.type} if …`, with the flag that decides"
            if condition is None
            else f"set it wherever `{text_of(condition)}` holds, or promise it under the condition "
            "under which it is set"
        )
        diagnostic = Diagnostic(
            code="MS0509",
            message=f"the walk `{walk.name}` does not always set its result `{result.name}`",
            primary=Label(span=result.decl.span, text=promise),
            notes=(f"whether it is there depends on {' and '.join(f'`{a}`' for a in atoms)}",),
            helps=(remedy,),
        )
        state.sink.report(diagnostic.label(held.span, "set here"))
        return
    fitter = Fitter(walk.scope)
    own = {var for param in walk.params for dim in dims_of(param.type) for var in dim.variables()}
    # Dims of the parameters are what they are; those of results alone take what is found.
    for var in own:
        fitter.bound[var] = variable(var)
    fitter.bind(result.type, held.type)
    misfit = fitter.fit(result.type, held.type)
    if misfit is not None:
        state.sink.report(
            Diagnostic(
                code=misfit.code,
                message=f"`{result.name}` is not what the walk `{walk.name}` promises",
                primary=Label(span=held.span, text=misfit.reason),
            ).label(result.decl.span, f"promised as `{result.type}`")
        )

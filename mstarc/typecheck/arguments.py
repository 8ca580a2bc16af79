"""Which parameter each argument of a call is for: by place, then by name."""

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

from mstarc.diagnostics import Diagnostic, Label, did_you_mean
from mstarc.syntax import ast
from mstarc.typecheck.fitting import Fitter, Misfit
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of
from mstarc.typecheck.typed import Call, Signature, WalkInfo
from mstarc.typecheck.types import Type

_MOST_ORDERED = 5
"""Arguments of which other orders are tried."""


def match_arguments(
    call: Call, args: tuple[ast.Arg, ...], signature: Signature, state: State
) -> dict[str, ast.Arg]:
    """Which argument each parameter gets."""
    params = signature.params
    names = [param.name for param in params]
    given: dict[str, ast.Arg] = {}
    position = 0
    for arg in args:
        if arg.name is None:
            if position >= len(params):
                state.sink.report(
                    Diagnostic(
                        code="MS0312",
                        message=f"`{signature.title}` takes {_count(len(params))}",
                        primary=Label(span=arg.span, text="one too many"),
                        helps=(_surplus(arg.value, signature, state),),
                    ).label(signature.decl.name.span, "declared here")
                )
                continue
            name = names[position]
            position += 1
        else:
            name = arg.name.text
            if name not in names:
                _unknown_argument(arg.name, names, signature, state)
                continue
        if name in given:
            state.sink.report(
                Diagnostic(
                    code="MS0312",
                    message=f"`{signature.title}` is given `{name}` twice",
                    primary=Label(span=arg.span, text="given again here"),
                ).label(given[name].span, "given first here")
            )
            continue
        given[name] = arg
    missing = [p for p in params if p.name not in given and p.default is None]
    if missing and len(given) == len(args):
        listed = " and ".join(f"`{param.name}`" for param in missing)
        diagnostic = Diagnostic(
            code="MS0310",
            message=f"`{signature.title}` is not given {listed}",
            primary=Label(span=call.span, text=f"takes {_count(len(params))}"),
        )
        for param in missing:
            diagnostic = diagnostic.label(param.decl.span, "needs a value")
        state.sink.report(diagnostic)
    return given


def meant_order(
    args: tuple[ast.Arg, ...],
    signature: Signature,
    types: Sequence[Type],
    wanted: Mapping[str, Type],
) -> tuple[ast.Arg, ...] | None:
    """The arguments in the order nearest to theirs in which all fit; None without such a one."""
    count = len(args)
    if not 2 <= count <= _MOST_ORDERED or count > len(signature.params):
        return None
    if any(arg.name is not None for arg in args):
        return None
    params = [wanted[param.name] for param in signature.params[:count]]

    def fits(order: tuple[int, ...]) -> bool:
        fitter = Fitter(signature.scope)
        pairs = [(params[place], types[number]) for place, number in enumerate(order)]
        for param, found in pairs:
            fitter.bind(param, found)
        return all(fitter.fit(param, found) is None for param, found in pairs)

    found = [order for order in permutations(range(count)) if fits(order)]
    if not found:
        return None
    # Of several the one that leaves most of them behind one another.
    return tuple(
        args[n] for n in min(found, key=lambda o: sum(a > b for a, b in combinations(o, 2)))
    )


def report_order(
    call: Call,
    first: ast.Arg,
    misfit: Misfit,
    meant: tuple[ast.Arg, ...],
    signature: Signature,
    state: State,
) -> None:
    """Report arguments that fit in another order."""
    listed = ", ".join(text_of(arg.value) for arg in meant)
    verb = "" if isinstance(call, ast.OpCall) else "run "
    state.sink.report(
        Diagnostic(
            code=misfit.code,
            message=f"the values for `{signature.title}` stand in another order",
            primary=Label(span=first.span, text=misfit.reason),
            helps=(f"write `{verb}{signature.title}({listed})`",),
        ).label(signature.decl.name.span, "declared here")
    )


def _surplus(value: ast.Expr, signature: Signature, state: State) -> str:
    """What to do with a value that no parameter takes."""
    symbol = state.resolved.meaning(value) if isinstance(value, ast.Name) else None
    seen = symbol is not None and symbol.kind in ("config", "option", "let")
    if seen and isinstance(signature, WalkInfo):
        return f"leave it out: `{signature.name}` sees `{text_of(value)}` itself"
    return f"leave it out, or declare a parameter for it in `{signature.title}`"


def _unknown_argument(name: ast.Name, known: list[str], signature: Signature, state: State) -> None:
    near = did_you_mean(name.text, known)
    listed = " or ".join(f"`{item}`" for item in near or known)
    diagnostic = Diagnostic(
        code="MS0311",
        message=f"`{signature.title}` has no parameter `{name.text}`",
        primary=Label(span=name.span, text="not a parameter"),
    ).label(signature.decl.name.span, "declared here")
    if listed:
        diagnostic = diagnostic.help(f"did you mean {listed}?" if near else f"it has {listed}")
    state.sink.report(diagnostic)


def _count(count: int) -> str:
    return "no values" if count == 0 else f"{count} value{'s' if count > 1 else ''}"

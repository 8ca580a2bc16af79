"""Divisors that are 0 in a request that the spec allows (MS0333).

All numbers of the host are computed when a request is admitted, those under a `when` too, so a
divisor that may be 0 refuses the request, or fails. What `need`s rule out and what stands behind
`and` and `or` is not computed then. Said is only what a witness is found for: values of options
under which the divisor is 0. A divisor that is always 0 is MS0315, where it is typed.
"""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, Label
from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.constants import ConfigScalar
from mstarc.typecheck.intervals import interval_of
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import static_dim
from mstarc.typecheck.text import text_of
from mstarc.typecheck.types import ERROR
from mstarc.typecheck.witnesses import Guards, Witness, find_zero, names_in


def check_divisors(state: State) -> None:
    """Report each division that fails in a request which the spec allows."""
    found: dict[str, list[tuple[ast.Binary, Witness]]] = {}
    for declaration in state.resolved.spec.declarations:
        match declaration:
            case ast.Let() | ast.WalkDecl() | ast.MachineDecl():
                roots: tuple[ast.Node, ...] = (declaration,)
            case ast.TableDecl():
                roots = (declaration.length, declaration.value)
            case ast.NeedDecl():
                roots = (declaration.condition,)
            case ast.NodeDecl():
                roots = tuple(item for item in declaration.items if not _is_op(item))
            case _:
                continue
        for root in roots:
            within = None
            if isinstance(declaration, ast.TableDecl) and root is declaration.value:
                within = state.resolved.meaning(declaration.index)
            for division, guards in _divisions(root, ()):
                witness = _witness(division, guards, within, state)
                if witness is not None:
                    found.setdefault(text_of(division.right), []).append((division, witness))
    for divisions in found.values():
        state.sink.report(_finding(divisions, state))


def _is_op(item: ast.Node) -> bool:
    return isinstance(item, ast.OpDecl)


def _divisions(node: ast.Node, guards: Guards) -> Iterator[tuple[ast.Binary, Guards]]:
    """Every division below `node`, with what holds where it is computed."""
    if isinstance(node, ast.And | ast.Or):
        yield from _divisions(node.left, guards)
        yield from _divisions(node.right, (*guards, (node.left, isinstance(node, ast.And))))
        return
    if isinstance(node, ast.Binary) and node.op in ("/", "//", "%"):
        yield node, guards
    for child in ast.children(node):
        yield from _divisions(child, guards)


def _witness(
    division: ast.Binary, guards: Guards, within: Symbol | None, state: State
) -> Witness | None:
    divisor = division.right
    if state.types.get(division, ERROR) == ERROR or not interval_of(divisor, state).holds(0):
        return None
    size = static_dim(divisor, state)
    if size is not None and size.value == 0:
        return None
    return find_zero(divisor, guards, state, within=within)


def _finding(divisions: list[tuple[ast.Binary, Witness]], state: State) -> Diagnostic:
    """One finding for all that divide by the same."""
    (division, witness), *others = divisions
    asked = set(names_in((division.right,), state))
    named = {s: value for s, value in witness.items() if s in asked}
    options = {s: value for s, value in named.items() if s.kind == "option"}
    listed = " and ".join(f"`{s.name}` is {_shown(value)}" for s, value in named.items())
    diagnostic = Diagnostic(
        code="MS0333",
        message=f"`{text_of(division)}` divides by zero in some requests",
        primary=Label(span=division.right.span, text=f"0 where {listed}"),
        notes=(
            "numbers of the host are computed when a request is admitted, also under a `when`: "
            "such a request is refused",
        ),
    )
    for other, _ in others:
        diagnostic = diagnostic.label(other.right.span, "divides by it as well")
    for symbol in options:
        info = state.options[symbol.name]
        if info.decl.domain is not None:
            diagnostic = diagnostic.label(info.decl.domain.span, "what the option may be")
        else:
            diagnostic = diagnostic.label(info.decl.span, "may be any number")
    return diagnostic.help(_remedy(options, state))


def _remedy(options: dict[Symbol, ConfigScalar], state: State) -> str:
    if not options:
        return "indices begin at 0: divide by something that is not 0 then, such as `i + 1`"
    if len(options) > 1:
        return "give one of the options another range, or refuse such requests with `need`"
    ((symbol, value),) = options.items()
    refuse = f"`need {symbol.name} != {_shown(value)}`"
    domain = state.options[symbol.name].domain
    if domain is None:
        return (
            f"give `{symbol.name}` a range without {_shown(value)}, `in … .. …`, or write {refuse}"
        )
    kind, values = domain
    if kind == "range" and value in values and type(value) is int:
        low, high = values
        assert isinstance(low, int)
        assert isinstance(high, int)
        low, high = (low + 1, high) if value == low else (low, high - 1)
        return f"let `{symbol.name}` be `in {low} .. {high}`, or write {refuse}"
    return f"give `{symbol.name}` a domain without {_shown(value)}, or write {refuse}"


def _shown(value: ConfigScalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)

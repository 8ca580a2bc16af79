"""What to do about a value that is read before it is set (MS0502)."""

from collections.abc import Set as AbstractSet

from mstarc.names import Symbol
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.state import State


def remedy(name: ast.Name, symbol: Symbol, read: AbstractSet[Symbol], state: State) -> str:
    """The help: `carry` in a loop that sets the value later, with the parameter that is left."""
    loop = loop_around(symbol.declaration.span, state.resolved.spec)
    if loop is None or not _holds(loop.span, name.span):
        return f"set `{name.text}` first, or move what reads it behind what sets it"
    if _holds(loop.bound.span, name.span):
        return "bound the loop by a number of config, options or lets, or by a parameter"
    left: list[str] = []
    for walk in state.resolved.spec.all_of(ast.WalkDecl):
        if _holds(walk.span, loop.span):
            known = (state.resolved.uses.get(param.name) for param in walk.params)
            left = [param.name for param in known if param is not None and param not in read]
    initial = left[0] if len(left) == 1 else "…"
    return (
        "carry it from pass to pass, and say what the first one reads: "
        f"`loop … carry {name.text} = {initial}`"
    )


def loop_around(span: Span, spec: ast.Spec) -> ast.Loop | None:
    """The innermost loop that holds the place."""
    found = None
    for walk in spec.all_of(ast.WalkDecl):
        if _holds(walk.span, span):
            for node in ast.descendants(walk):
                if isinstance(node, ast.Loop) and _holds(node.span, span):
                    found = node
    return found


def goes_over_nothing(symbol: Symbol, state: State) -> bool:
    """Whether a part is one of an input that there is not, which has been said."""
    return symbol.kind == "part" and state.resolved.meaning(symbol.of(ast.For).source) is None


def _holds(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end

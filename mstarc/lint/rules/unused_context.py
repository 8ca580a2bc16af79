"""A KV context that no call works on."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every declared context that no effect and no call names, and no fork copies."""
    # To fill a context or to empty it is no use of what it holds.
    kept = frozenset(_filled(context))
    kept_names = {path.context.name for path in kept}
    named = {symbol for name, symbol in context.resolved.uses.items() if name not in kept_names}
    taken = {
        (_node_of(place), name)
        for place, name in context.typed.contexts.items()
        if _node_of(place) is not None and place not in kept
    }
    filled = {(path.node.text, path.context.name.text) for path in kept}
    for node in context.typed.nodes.values():
        effects = {name for op in node.ops.values() for name in (*op.writes, *op.reads)}
        called = any(name == node.name for name, _ in context.called_ops)
        for held in node.contexts:
            if held.decl is None or not called:
                continue
            symbol = context.resolved.symbols.members[node.name].contexts.get(held.name)
            if symbol in named or held.name in effects or (node.name, held.name) in taken:
                continue
            message = f"context `{held.name}` of node `{node.name}` is never used"
            label = "no op writes it and none reads it"
            if (node.name, held.name) in filled:
                label = "filled or emptied, and no call reads it"
            yield finding("MS1009", held.decl.name.span, message, label)


def _filled(context: RuleContext) -> Iterator[ast.ContextPath]:
    for statement in (*context.nodes.get(ast.Fork, ()), *context.nodes.get(ast.Release, ())):
        if isinstance(statement, ast.Fork | ast.Release):
            yield statement.target


def _node_of(place: ast.Node) -> str | None:
    match place:
        case ast.OpCall():
            return place.target.node.text
        case ast.ContextPath():
            return place.node.text
        case _:
            return None


RULE = Rule(code="MS1009", group="memory", check=check)

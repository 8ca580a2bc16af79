"""A KV context that no call works on."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every declared context that no effect, call, fork or release names."""
    taken = {
        (_node_of(place), name)
        for place, name in context.typed.contexts.items()
        if _node_of(place) is not None
    }
    for node in context.typed.nodes.values():
        effects = {name for op in node.ops.values() for name in (*op.writes, *op.reads)}
        called = any(name == node.name for name, _ in context.called_ops)
        for held in node.contexts:
            if held.decl is None or not called:
                continue
            symbol = context.resolved.symbols.members[node.name].contexts.get(held.name)
            if symbol in context.used or held.name in effects or (node.name, held.name) in taken:
                continue
            message = f"context `{held.name}` of node `{node.name}` is never used"
            span = held.decl.name.span
            yield finding("MS1009", span, message, "no op writes it and none reads it")


def _node_of(place: ast.Node) -> str | None:
    match place:
        case ast.OpCall():
            return place.target.node.text
        case ast.ContextPath():
            return place.node.text
        case _:
            return None


RULE = Rule(code="MS1009", group="memory", check=check)

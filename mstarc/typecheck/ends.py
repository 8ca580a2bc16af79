"""Chunks that end at items: which items those are is noted when they are sent."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.syntax import ast
from mstarc.typecheck.state import State
from mstarc.typecheck.text import text_of


def check_ends(state: State) -> None:
    """Refuse (MS0418) a stream whose reads end chunks at items by several conditions."""
    first: dict[str, ast.Expr] = {
        stream.name: stream.policy.stop
        for stream in state.streams.values()
        if stream.policy.stop is not None
    }
    for each, policy in state.policies.items():
        if policy.stop is None:
            continue
        items = []
        for name in each.streams:
            symbol = state.resolved.meaning(name)
            if symbol is None or symbol.name not in state.streams:
                continue
            stream = state.streams[symbol.name]
            items.append(stream.item)
            held = first.setdefault(stream.name, policy.stop)
            if text_of(held) != text_of(policy.stop):
                _report(name.text, policy.stop, held, state)
        if any(item != items[0] for item in items):
            state.error(
                "MS0418",
                policy.stop.span,
                "streams that are read in step end their chunks at items of one type",
                "about the items of each",
            )


def _report(stream: str, stop: ast.Expr, other: ast.Expr, state: State) -> None:
    state.sink.report(
        Diagnostic(
            code="MS0418",
            message=f"chunks of `{stream}` end at items by two conditions",
            primary=Label(span=stop.span, text="ends a chunk here"),
            notes=("which items end a chunk is noted when they are sent",),
            helps=("give both reads one condition, or let a mark end the chunks of one of them",),
        ).label(other.span, "and another one elsewhere")
    )

"""A call in a `parallel` that gives what another one of it gives."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast
from mstarc.typecheck.text import text_of


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for each call of an op that another branch calls with the same, on one context.

    An op that draws, keeps rows or has a state may give something else each time.
    """
    for parallel in context.nodes.get(ast.Parallel, ()):
        seen: dict[tuple[str, ...], ast.OpCall] = {}
        for call in ast.descendants(parallel):
            if not isinstance(call, ast.OpCall):
                continue
            op = context.typed.nodes[call.target.node.text].ops[call.target.op.text]
            if op.writes or op.sampler is not None or op.stateful:
                continue
            values = context.typed.arguments.get(call, ())
            on = context.typed.contexts.get(call, "")
            first = seen.setdefault((op.title, on, *map(text_of, values)), call)
            if first is not call:
                yield _finding(first, call, on, context)


def _finding(first: ast.OpCall, second: ast.OpCall, on: str, context: RuleContext) -> Diagnostic:
    node = context.typed.nodes[second.target.node.text]
    others = [held.name for held in node.contexts if held.name != on]
    remedy = "call it once"
    if others:
        remedy = f"choose another context, such as `on {others[0]}`, or {remedy}"
    where = f"on `{on}` too: " if on else ""
    message = f"two branches call `{text_of(second)}`"
    return (
        finding("MS1030", second.span, message, f"{where}gives what the other gives")
        .label(first.span, "the other one")
        .help(remedy)
    )


RULE = Rule(code="MS1030", group="correctness", check=check, status="preview")

"""An op that makes text of tokens and remembers nothing from one to the next."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, Edit, Fix
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.source import Span
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every op that a `via` names and that is not `stateful`."""
    for output in context.spec.request_fields:
        if not isinstance(output, ast.OutField) or output.via is None:
            continue
        node = context.typed.nodes[output.via.node.text]
        op = node.ops[output.via.op.text]
        if op.stateful:
            continue
        end = Span(path=op.decl.span.path, start=op.decl.span.end, end=op.decl.span.end)
        fix = Fix(
            message=f"make `{op.title}` stateful",
            edits=(Edit(span=end, text="  stateful"),),
            applicability="unsafe",
        )
        message = f"`{op.title}` makes text of tokens, and remembers none of them"
        yield (
            finding("MS1027", op.decl.name.span, message, "not `stateful`")
            .label(output.via.span, "used token by token")
            .note("a character may be made of several tokens: its parts would be shown as `�`")
            .with_fix(fix)
        )


RULE = Rule(code="MS1027", group="correctness", check=check)

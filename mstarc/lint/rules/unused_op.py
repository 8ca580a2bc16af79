"""An op of a used node that nothing calls."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every op that is named nowhere, of nodes that have a named one."""
    called_nodes = {node for node, _ in context.called_ops}
    for node in context.typed.nodes.values():
        if node.name not in called_nodes:
            continue
        for op in node.ops.values():
            if (node.name, op.name) in context.called_ops:
                continue
            message = f"op `{op.title}` is never called"
            label = "no walk, state or `via` names it"
            fix = removal(context.whole_lines(op.decl.span), f"remove `{op.title}`", safe=True)
            yield finding("MS1004", op.decl.name.span, message, label).with_fix(fix)


RULE = Rule(code="MS1004", group="correctness", check=check)

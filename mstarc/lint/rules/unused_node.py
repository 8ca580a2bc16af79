"""A node that nothing calls."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every node none of whose ops is named anywhere."""
    called = {node for node, _ in context.called_ops}
    for node in context.typed.nodes.values():
        if node.name in called:
            continue
        name = node.decl.name.span
        found = finding("MS1003", name, f"node `{node.name}` is never called", "no walk names it")
        if node.engine != "host":
            found = found.note("it is placed all the same, and its weights are loaded")
        fix = removal(context.whole_lines(node.decl.span), f"remove node `{node.name}`", safe=False)
        yield found.help("call one of its ops, or remove it").with_fix(fix)


RULE = Rule(code="MS1003", group="correctness", check=check)

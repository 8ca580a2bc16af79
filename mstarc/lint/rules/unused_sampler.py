"""A sampler that no op draws with."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `sample` that no op of its node uses, of nodes that are called."""
    called = {node for node, _ in context.called_ops}
    for node in context.typed.nodes.values():
        used = {op.sampler for op in node.ops.values()}
        for item in node.decl.items:
            if not isinstance(item, ast.SampleItem) or node.name not in called:
                continue
            name = "default" if item.name is None else item.name.text
            if name in used:
                continue
            what = "the sampler" if item.name is None else f"sampler `{name}`"
            message = f"{what} of node `{node.name}` is never used"
            span = item.span if item.name is None else item.name.span
            found = finding("MS1010", span, message, "no op draws with it")
            if item.name is not None:
                found = found.help(f"write `sampler {name}` after the op that should draw with it")
            fix = removal(context.whole_lines(item.span), f"remove {what}", safe=True)
            yield found.with_fix(fix)


RULE = Rule(code="MS1010", group="correctness", check=check)

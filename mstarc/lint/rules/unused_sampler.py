"""A named sampler that no op uses."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `sample name { … }` that no `sampler name` names."""
    for node in context.typed.nodes.values():
        for name, symbol in context.resolved.symbols.members[node.name].samplers.items():
            item = symbol.node
            if symbol in context.used or not isinstance(item, ast.SampleItem) or item.name is None:
                continue
            message = f"sampler `{name}` of node `{node.name}` is never used"
            fix = removal(context.whole_lines(item.span), f"remove sampler `{name}`", safe=True)
            yield (
                finding("MS1010", item.name.span, message, "no op names it")
                .help(f"write `sampler {name}` after the op that should draw with it")
                .with_fix(fix)
            )


RULE = Rule(code="MS1010", group="correctness", check=check)

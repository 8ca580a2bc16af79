"""A `let` or a `table` at the top that nothing reads."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every let and table that no expression names."""
    for kind in ("let", "table"):
        for symbol in context.resolved.symbols.values_of(kind):
            if symbol in context.used:
                continue
            message = f"{kind} `{symbol.name}` is never used"
            fix = removal(
                context.whole_lines(symbol.node.span), f"remove `{symbol.name}`", safe=True
            )
            span = symbol.declaration.span
            yield finding("MS1007", span, message, "computed for nothing").with_fix(fix)


RULE = Rule(code="MS1007", group="correctness", check=check)

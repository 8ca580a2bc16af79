"""A config value that nothing reads."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every config item that no expression and no dim names."""
    for symbol in context.resolved.symbols.values_of("config"):
        if symbol in context.used:
            continue
        item = symbol.of(ast.ConfigItem)
        message = f"config value `{symbol.name}` is never used"
        fix = removal(context.whole_lines(item.span), f"remove `{symbol.name}`", safe=False)
        yield (
            finding("MS1005", item.name.span, message, "nothing depends on it")
            .note("another value in a file of sizes or a checkpoint would change nothing")
            .with_fix(fix)
        )


RULE = Rule(code="MS1005", group="correctness", check=check)

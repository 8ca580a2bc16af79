"""An option of the request that nothing reads."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding, removal
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `opt` that no expression names."""
    for symbol in context.resolved.symbols.values_of("option"):
        if symbol in context.used:
            continue
        option = symbol.of(ast.OptField)
        message = f"option `{symbol.name}` is never used"
        fix = removal(context.whole_lines(option.span), f"remove `{symbol.name}`", safe=False)
        yield (
            finding("MS1006", option.name.span, message, "nothing depends on it")
            .note("a request that sets it gets the same answer as one that does not")
            .with_fix(fix)
        )


RULE = Rule(code="MS1006", group="correctness", check=check)

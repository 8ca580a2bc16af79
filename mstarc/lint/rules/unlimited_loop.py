"""A loop that a request can make as long as it likes."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every loop bound that names an option without a domain."""
    for loop in context.nodes.get(ast.Loop, ()):
        assert isinstance(loop, ast.Loop)
        for name in ast.descendants(loop.bound.count):
            if not isinstance(name, ast.Name):
                continue
            symbol = context.resolved.meaning(name)
            if symbol is None or symbol.kind != "option":
                continue
            option = symbol.of(ast.OptField)
            if option.domain is not None:
                continue
            message = f"nothing limits the `{symbol.name}` that a request may ask for"
            yield (
                finding("MS1016", option.name.span, message, "any whole number will do")
                .label(loop.bound.span, "bounds this loop")
                .note("one request can hold its place in the batch, and pages, for ever")
                .help(f"give it a domain: `opt {symbol.name} : int = … in 1 .. 8192`")
            )


RULE = Rule(code="MS1016", group="correctness", level="deny", check=check)

"""A number that a request may set to anything."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.lint.rules import unlimited_loop
from mstarc.names import Symbol
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `int` and `float` option without a domain, seeds left out.

    A sampler's `seed` may be any number; one that bounds a loop has
    a rule of its own, and one that is never used another.
    """
    bounds = {found.primary.span for found in unlimited_loop.check(context)}
    for symbol in context.resolved.symbols.values_of("option"):
        option = symbol.of(ast.OptField)
        kind = context.source.slice(option.type.span)
        if option.domain is not None or kind not in ("int", "float"):
            continue
        if option.name.span in bounds or symbol not in context.used:
            continue
        if _is_seed(symbol, context):
            continue
        message = f"a request may set `{symbol.name}` to any number"
        example = "0.0 .. 2.0" if kind == "float" else "1 .. 8192"
        yield (
            finding("MS1017", option.name.span, message, f"any `{kind}` will do")
            .note("a number that makes no sense is refused only where a request's options say so")
            .help(f"say what it may be: `in {example}`")
        )


def _is_seed(symbol: Symbol, context: RuleContext) -> bool:
    seeds = {
        setting.value
        for node in context.typed.nodes.values()
        for _, settings in node.samplers
        for setting in settings
        if setting.name.text == "seed"
    }
    uses = [name for name, meaning in context.resolved.uses.items() if meaning is symbol]
    if "seed" in symbol.name:
        # An op that makes noise takes the seed too.
        seeds.update(*context.typed.arguments.values())
    return all(use in seeds for use in uses)


RULE = Rule(code="MS1017", group="style", check=check)

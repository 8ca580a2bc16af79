"""Two names that differ only in their capital letters."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.names import Symbol
from mstarc.names.symbols import KIND_WORDS


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for the later of two names of the spec that differ only by case."""
    symbols = context.resolved.symbols
    tables = (
        symbols.values,
        symbols.outputs,
        symbols.nodes,
        symbols.streams,
        symbols.walks,
        symbols.machines,
    )
    everything = [symbol for table in tables for symbol in table.values()]
    first: dict[str, Symbol] = {}
    for symbol in sorted(everything, key=lambda entry: entry.declaration.span.start):
        other = first.setdefault(symbol.name.lower(), symbol)
        if other.name == symbol.name:
            continue
        message = f"`{symbol.name}` and `{other.name}` differ only in capital letters"
        yield (
            finding("MS1021", symbol.declaration.span, message, f"a {KIND_WORDS[symbol.kind]}")
            .label(other.declaration.span, f"a {KIND_WORDS[other.kind]}")
            .help("give one of them a name that can be told apart when it is spoken")
        )


RULE = Rule(code="MS1021", group="style", check=check)

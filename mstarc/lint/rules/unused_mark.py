"""A mark of a stream that no reader waits for."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.names import Symbol
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every mark that is only set, or not even that."""
    set_by: dict[Symbol, ast.Mark] = {}
    set_names: set[ast.Name] = set()
    for statement in context.nodes.get(ast.Mark, ()):
        assert isinstance(statement, ast.Mark)
        symbol = context.resolved.meaning(statement.mark)
        if symbol is not None:
            set_by.setdefault(symbol, statement)
            set_names.add(statement.mark)
    awaited = {symbol for name, symbol in context.resolved.uses.items() if name not in set_names}
    for stream, marks in context.resolved.symbols.marks.items():
        for symbol in marks.values():
            if symbol in awaited:
                continue
            message = f"no reader of `{stream}` waits for its mark `{symbol.name}`"
            found = finding("MS1008", symbol.declaration.span, message, "named by no `until`")
            if symbol in set_by:
                found = found.label(set_by[symbol].span, "set here")
            yield found.note("a mark ends the chunk before it where a read or a policy names it")


RULE = Rule(code="MS1008", group="correctness", check=check)

"""An input of the request that nothing reads."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `in` that no machine, no condition and no `need` names."""
    kinds_asked = {
        has.subject.text for has in context.nodes.get(ast.Has, ()) if isinstance(has, ast.Has)
    }
    for symbol in context.resolved.symbols.values_of("input"):
        field = symbol.of(ast.InField)
        asked = isinstance(field.type, ast.PartsType) and bool(
            kinds_asked & {kind.text for kind in field.type.kinds}
        )
        if symbol in context.used or asked:
            continue
        message = f"input `{symbol.name}` is never read"
        yield (
            finding("MS1029", field.name.span, message, "no state names it")
            .note("a request must bring it, and the answer does not depend on it")
            .help("give it to an op, or remove it")
        )


RULE = Rule(code="MS1029", group="correctness", check=check)

"""An op that attends, and neither writes nor reads a context."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every op with `attends` and without `writes` and `reads`.

    `prefix` is left out: it attends its own rows and keeps none.
    """
    for node in context.typed.nodes.values():
        for op in node.ops.values():
            attends = next((e for e in op.decl.effects if isinstance(e, ast.Attends)), None)
            named = any(isinstance(e, ast.Writes | ast.Reads) for e in op.decl.effects)
            if attends is None or named or attends.mask.text == "prefix":
                continue
            message = f"op `{op.title}` attends, and works on no context"
            yield (
                finding("MS1026", attends.span, message, "to what?")
                .label(op.decl.name.span, "neither writes nor reads")
                .note("its rows see one another only, and the next call sees none of them")
                .help("write `writes` for rows that stay in the cache, `reads` for others")
            )


RULE = Rule(code="MS1026", group="correctness", check=check)

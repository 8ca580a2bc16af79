"""Chunks with less context than the op behind them looks back."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.lint.sound import ChunkUse, chunk_uses
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every op with `receptive n` that is given chunks with fewer old items."""
    for use in chunk_uses(context):
        needed = use.op.receptive
        had = _old_items(use)
        if needed is None or had is None or had >= needed:
            continue
        message = (
            f"chunks of `{use.stream.name}` bring {had} items of context to `{use.op.title}`, "
            f"which looks back {needed}"
        )
        receptive = next(e for e in use.op.decl.effects if isinstance(e, ast.Receptive))
        yield (
            finding("MS1012", use.policy.decl.span, message, f"{had} items of context")
            .label(receptive.span, f"needs {needed}")
            .note("what is made at the seam of two chunks differs from a decode of the whole")
            .help(_advice(use, needed))
        )


def _old_items(use: ChunkUse) -> int | None:
    """How many items a full chunk holds that an earlier one held too."""
    match use.policy.kind:
        case "left_context":
            return use.policy.context
        case "sliding":
            return use.policy.size - use.policy.stride
        case "fixed" | "until":
            return 0


def _advice(use: ChunkUse, needed: int) -> str:
    if use.policy.kind == "left_context":
        return f"write `context = {needed}`, or say in a suppression why less is good enough"
    size = use.policy.stride or use.policy.size
    return f"write `left_context(chunk = {size}, context = {needed})`"


RULE = Rule(code="MS1012", group="correctness", check=check)

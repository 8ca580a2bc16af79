"""A node on a device that has nothing to load."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every device node without `weights`, in a model without a checkpoint."""
    if context.spec.model.source is not None:
        return
    for node in context.typed.nodes.values():
        if node.engine == "host" or node.weights is not None:
            continue
        message = f"node `{node.name}` has no weights"
        yield (
            finding("MS1019", node.decl.name.span, message, "no `weights`")
            .label(context.spec.model.span, "and the model has no checkpoint")
            .help('give it `weights "org/checkpoint"`, or the model `from "org/checkpoint"`')
        )


RULE = Rule(code="MS1019", group="correctness", check=check)

"""Sampling that no request can change."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.lint.values import constant_number, names_option


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for the first sampler that draws at random, where no sampler names an option.

    One that always takes the likeliest token has nothing to change, and where a request can set
    one sampler, the constants of the others are the author's choice.
    """
    settings = [
        (node, setting)
        for node in context.typed.nodes.values()
        for _, entries in node.samplers
        for setting in entries
    ]
    if any(names_option(setting.value, context) for _, setting in settings):
        return
    for node, setting in settings:
        if setting.name.text != "temperature" or not constant_number(setting.value, context):
            continue
        message = "no request can change how tokens are drawn"
        label = f"always {context.source.slice(setting.value.span)}"
        yield (
            finding("MS1015", setting.span, message, label)
            .label(node.decl.name.span, "draws at random")
            .note("two requests that are equal get different answers, and none can ask for more")
            .help("declare options: `opt temperature : float = … in 0.0 .. 2.0`, `opt seed : int`")
        )
        return


RULE = Rule(code="MS1015", group="style", check=check)

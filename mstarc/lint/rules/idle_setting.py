"""Settings of a sampler that do nothing, since it always takes the likeliest token."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.lint.values import constant_number

# What only matters where tokens are drawn at random; a penalty changes which is the likeliest.
_RANDOM = ("top_k", "top_p", "seed")


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `top_k`, `top_p` and `seed` beside a temperature that is always 0."""
    for node in context.typed.nodes.values():
        for _, settings in node.samplers:
            by_name = {setting.name.text: setting for setting in settings}
            temperature = by_name.get("temperature")
            if temperature is None or constant_number(temperature.value, context) != 0:
                continue
            for name in _RANDOM:
                if name not in by_name:
                    continue
                setting = by_name[name]
                message = f"`{name}` of node `{node.name}` changes nothing"
                yield (
                    finding("MS1011", setting.span, message, "nothing is drawn at random")
                    .label(temperature.span, "the likeliest token is always taken")
                    .help(f"give the temperature an option, or leave out `{name}`")
                )


RULE = Rule(code="MS1011", group="correctness", check=check)

"""A sampling rate in `config` that no audio of the request has."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast
from mstarc.typecheck.types import MediaType

_LEAST_HERTZ = 4000
_WORDS = ("sample_rate", "sampling_rate", "audio_rate")


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every config value that is a rate by its name, and no audio field's."""
    audio: dict[int, ast.RequestField] = {}
    for field in context.spec.request_fields:
        if isinstance(field, ast.OptField):
            continue
        for type_ in _media(field, context):
            if type_.kind == "audio" and type_.rate is not None:
                audio.setdefault(type_.rate, field)
    if not audio:
        return
    for item in context.spec.config_items:
        value = context.typed.config.get(item.name.text)
        names = (item.name.text, item.source.value.split(".")[-1] if item.source else "")
        if not any(word in name for word in _WORDS for name in names):
            continue
        if type(value) is not int or value < _LEAST_HERTZ or value in audio:
            continue
        found = finding(
            "MS1018",
            item.name.span,
            f"no audio of the request has the rate of `{item.name.text}`",
            f"{value} Hz",
        )
        for rate, field in audio.items():
            found = found.label(field.type.span, f"{rate} Hz")
        yield found.note("sound at another rate is played too fast or too slow")


def _media(field: ast.InField | ast.OutField, context: RuleContext) -> tuple[MediaType, ...]:
    type_ = context.typed.fields.get(field.name.text) or context.typed.types.get(field)
    return (type_,) if isinstance(type_, MediaType) else ()


RULE = Rule(code="MS1018", group="correctness", level="deny", check=check)

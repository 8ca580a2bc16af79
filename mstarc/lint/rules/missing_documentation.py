"""A model or a stream that does not say what it is."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for a model, and for every stream, without a `##` comment."""
    model = context.spec.model
    if not model.doc and model.span.start < model.span.end:
        yield (
            finding("MS1020", model.name.span, f"model `{model.name.text}` is not described")
            .note("the report, the picture and the editor show what `##` says")
            .help("say in a line before it what it takes and gives: `## Text to speech: …`")
        )
    for stream in context.spec.all_of(ast.StreamDecl):
        if not stream.doc:
            yield (
                finding("MS1020", stream.name.span, f"stream `{stream.name.text}` is not described")
                .note("what one item is, and why chunks are cut so, is nowhere else")
                .help("say in a line before it what one item is: `## One item is …`")
            )


RULE = Rule(code="MS1020", group="style", check=check)

"""A tail of items that is dropped, and could be heard."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.lint.sound import new_items, sounds

MOST_SECONDS = 0.2


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every stream of sound whose `tail drop` may take more than a fifth of a second.

    Dropped are at most the new items of a chunk but one; the pause that ends most speech is longer
    than what the rule lets pass.
    """
    for sound in sounds(context):
        stream = sound.use.stream
        if stream.tail != "drop" or stream.decl.tail is None:
            continue
        items = new_items(sound.use.policy) - 1
        seconds = items * sound.seconds_an_item
        if seconds <= MOST_SECONDS:
            continue
        message = f"up to {seconds * 1000:.0f} ms of `{sound.output}` are cut off at its end"
        yield (
            finding("MS1023", stream.decl.tail.span, message, f"drops up to {items} items")
            .label(sound.use.policy.decl.span, f"a chunk brings {items + 1} new items")
            .help("write `tail short` or `tail pad(value)`, or make chunks smaller")
        )


RULE = Rule(code="MS1023", group="correctness", status="preview", check=check)

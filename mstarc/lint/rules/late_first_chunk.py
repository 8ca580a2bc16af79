"""A first chunk that holds more sound than a listener wants to wait for."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.lint.sound import Sound, sounds
from mstarc.typecheck.typed import PolicyInfo

MOST_SECONDS = 1.0


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every stream of sound whose first chunk waits for a second of it or more.

    `until` is left out: where its first chunk ends is a matter of the items.
    """
    for sound in sounds(context):
        policy = sound.use.policy
        items = _first(policy)
        if items is None:
            continue
        seconds = items * sound.seconds_an_item
        if seconds < MOST_SECONDS:
            continue
        message = f"the first sound of `{sound.output}` waits until {seconds:.2f} s of it are made"
        label = f"the first chunk takes {items} items"
        found = finding("MS1013", policy.decl.span, message, label)
        found = found.label(sound.use.op.decl.name.span, _rate(sound))
        yield found.note(
            f"at the speed of speech a listener waits that long; at ten times it, "
            f"{seconds / 10:.2f} s"
        ).help(_advice(policy))


def _first(policy: PolicyInfo) -> int | None:
    match policy.kind:
        case "until":
            return None
        case _:
            return policy.ramp[0] if policy.ramp else policy.size


def _rate(sound: Sound) -> str:
    rate = 1 / sound.seconds_an_item
    return f"{sound.samples_an_item:.6g} samples an item: {rate:.4g} items are a second"


def _advice(policy: PolicyInfo) -> str:
    if policy.kind == "left_context":
        return "let the first chunks be small: `ramp = (4, 8, 16)`"
    size = policy.stride or policy.size
    old = policy.size - policy.stride if policy.kind == "sliding" else 0
    return f"`left_context(chunk = {size}, context = {old}, ramp = …)` lets the first ones be small"


RULE = Rule(code="MS1013", group="latency", status="preview", check=check)

"""What people leave out, so that what follows does not fit: one function a habit, with a test."""

from mstarc.diagnostics import Edit, Fix
from mstarc.syntax.situation import Finding, Situation, finding, innermost
from mstarc.syntax.tokens import FLOAT, INT, NAME


def argument_with_a_colon(situation: Situation) -> Finding | None:
    """`run read(ids, last: true)`."""
    token, before = situation.token, situation.before
    if token.text != ":" or before is None or before.kind != NAME or not situation.takes("="):
        return None
    if not (situation.takes(",") and situation.takes(")")):
        return None
    span = situation.span(token)
    says = f"`{before.text}` is given by `{before.text} = …`"
    fix = Fix(message="write `=`", edits=(Edit(span=span, text=" ="),), applicability="safe")
    diagnostic = finding("MS0112", span, "an argument is named with `=`", says).help("write `=`")
    return Finding(diagnostic=diagnostic.with_fix(fix), instead="=")


def size_without_unit(situation: Situation) -> Finding | None:
    """`weights "org/model" size 3`: what stands on the next line is taken for the unit."""
    tokens, number = situation.tokens, situation.number
    for unit in (number, number - 1):
        if unit < 2 or tokens[unit - 2].text != "size" or tokens[unit - 1].kind not in (INT, FLOAT):
            continue
        amount, after = tokens[unit - 1], tokens[unit]
        if unit == number - 1 and not after.first_on_line:
            continue
        diagnostic = finding(
            "MS0101",
            situation.span(amount),
            "a size has no unit",
            "expected a unit after this",
        ).help(f"write `size {amount.text} GB`")
        return Finding(diagnostic=diagnostic, resume=unit, is_certain=True)
    return None


def prefix_behind_a_size(situation: Situation) -> Finding | None:
    """`weights "org/model" size 3 GB under "text."`."""
    token, after = situation.token, situation.after
    words = [other.text for other in situation.line]
    if token.text != "under" or after is None or "size" not in words or "weights" not in words:
        return None
    size = situation.line[words.index("size")]
    written = f"under {after.text} {' '.join(words[words.index('size') : -1])}"
    diagnostic = finding(
        "MS0101", situation.span(token), "`under` stands behind the size", "belongs before `size`"
    ).label(situation.span(size), "the size")
    return Finding(
        diagnostic=diagnostic.help(f"write `{written}`"),
        resume=situation.number + 2,
        is_certain=True,
    )


def context_without_node(situation: Situation) -> Finding | None:
    """`fork dit.no_text = main`, `release main`."""
    token, before = situation.token, situation.before
    if before is None or before.kind != NAME or not situation.takes("."):
        return None
    is_path = innermost(situation) == "contextpath"
    if not is_path or before.first_on_line or not (token.first_on_line or token.text in ("=", "}")):
        return None
    diagnostic = finding(
        "MS0101",
        situation.span(before),
        f"`{before.text}` is no context of a node",
        "expected `.` and a context after a node",
    ).help(f"a node's context reads `node.context`: write `node.{before.text}`, with the node")
    return Finding(diagnostic=diagnostic, resume=situation.number, is_certain=True)


def loop_without_times(situation: Situation) -> Finding | None:
    """`loop steps as i { … }`, `loop i in steps { … }`."""
    token = situation.token
    words = [other.text for other in situation.line[:-1]]
    if not situation.takes("times") or "loop" not in words:
        return None
    start = len(words) - words[::-1].index("loop")
    bound = " ".join(words[start:])
    if token.text == "in" and situation.after is not None and len(words) == start + 1:
        index, bound = bound, situation.after.text
        written = f"loop {bound} times as {index}"
    elif token.text in ("as", "carry", "collect", "while", "{") and bound:
        written = f"loop {bound} times {token.text}".removesuffix(" {")
    else:
        return None
    diagnostic = finding(
        "MS0101", situation.span(token), "a loop does not say `times`", "expected `times`"
    ).help(f"write `{written} …`, or `loop max {bound} …` with a condition")
    return Finding(diagnostic=diagnostic, is_certain=True)

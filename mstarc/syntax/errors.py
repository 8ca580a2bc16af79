"""Say what is wrong at a token that does not fit, in the language's words.

The parser gives the place and what it could have taken there; the answer is a diagnostic, and
where it is sure what was meant, the text to go on with.
"""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, Edit, Fix, did_you_mean
from mstarc.syntax.habits import HABITS
from mstarc.syntax.situation import (
    PLACE_NAMES,
    Finding,
    Situation,
    expected_text,
    finding,
    form_of,
)
from mstarc.syntax.tokens import END_OF_TEXT, FLOAT, INT, NAME, STRING, Token
from mstarc.syntax.words import STATEMENT_WORDS

# By a terminal that only one place takes: what may stand there.
_WHAT_BEGINS = (
    (
        "WALK",
        "a declaration begins with `config`, `request`, `need`, `let`, `table`, `node`, `stream`, "
        "`walk` or `machine`",
    ),
    (
        "EMIT",
        "a statement is `name = node.op(x)`, `run walk(x)`, `send`, `emit`, `loop`, `parallel`, "
        "`when`, `fork`, `release`, or in a machine `for`, `match`, `each`, `mark`, `next`",
    ),
    (
        "IMPL",
        "an item of a node begins with `impl`, `weights`, `shards`, `kv`, `contexts`, `sample` or "
        "`op`",
    ),
)


def explain(situation: Situation) -> Finding:
    """What to say about a token that does not fit."""
    for habit in HABITS:
        finding = habit(situation)
        if finding is not None:
            return finding
    diagnostic = _unexpected(situation)
    meant = _meant_mark(situation)
    if meant is None:
        return Finding(diagnostic=diagnostic)
    span = situation.span(situation.token)
    before = situation.before
    if situation.token.text == ">" and before is not None:
        span = situation.span(before).cover(span)
    text = "!=" if situation.token.text == ">" else meant
    fix = Fix(
        message=f"write `{text}`" if text else f"remove `{situation.token.text}`",
        edits=(Edit(span=span, text=text),),
        applicability="safe",
    )
    return Finding(diagnostic=diagnostic.with_fix(fix), instead=meant, is_once=True)


def _meant_mark(situation: Situation) -> str | None:
    """The mark that is meant by another one, where that is certain; empty for none."""
    token, before, takes = situation.token, situation.before, situation.takes
    joined = before.text if before is not None and before.end == token.start else ""
    if (token.text == "=" and joined in ("==", "!=", "..")) or joined + token.text == "<>":
        return ""
    if token.text == "is" and situation.ahead(1).text == "not":
        return None
    if token.text in ("=", "is") and "CMP" in situation.taken and not takes("="):
        return "=="
    if token.text == ":" and takes("=") and not takes(":"):
        return "="
    if token.text == "=" and takes(":") and not takes("="):
        return ":"
    if token.text in ("=", ":") and situation.takes_only_text():
        return ""
    if token.text in ("-", "to", ",", "until") and takes(".."):
        return ".."
    return None


def _unexpected(situation: Situation) -> Diagnostic:
    token, before = situation.token, situation.before
    expected = expected_text(situation)
    found = _found(token)
    message = f"expected {expected}, found {found}" if expected else f"{found} has no place here"
    is_name = before is not None and before.kind == NAME
    form = form_of(situation) if not PLACE_NAMES & set(situation.taken) else None
    if before is not None and is_name and situation.takes("=") and situation.takes("."):
        label = f"`{before.text}` is read as a name, which goes on with {expected}"
    elif form is not None:
        label = f"{form.noun} goes on with {expected}" if expected else f"does not fit {form.noun}"
    elif before is not None:
        label = f"cannot follow `{before.text}`" if before.text else "cannot stand here"
    else:
        label = "cannot stand here"
    diagnostic = finding("MS0101", situation.span(token), message, label)
    if situation.opener is not None and ("`)`" in expected or "`]`" in expected):
        diagnostic = diagnostic.label(situation.span(situation.opener), "opened here")
    for word, known in _misspelt(situation):
        nearest = did_you_mean(word, known)
        if nearest:
            shown = " or ".join(f"`{text}`" for text in nearest)
            return diagnostic.help(f"did you mean {shown} instead of `{word}`?")
    if form is not None:
        return diagnostic.help(f"{form.noun} reads {form.text}")
    place = next((says for place, says in _WHAT_BEGINS if place in situation.taken), "")
    return diagnostic.help(place or "take it out, or look at what stands before it")


def _misspelt(situation: Situation) -> Iterator[tuple[str, list[str]]]:
    """Words that may be meant for others: this one, or one before it taken for a name."""
    token, before = situation.token, situation.before
    if token.kind == NAME:
        taken = (situation.shown.get(terminal, "") for terminal in sorted(situation.taken))
        yield token.text, [text for text in taken if text.isalpha()]
    is_name = before is not None and before.kind == NAME
    if before is not None and is_name and situation.takes("=") and situation.takes("."):
        yield before.text, sorted(STATEMENT_WORDS)


def _found(token: Token) -> str:
    if token.kind == END_OF_TEXT:
        return "the end of the file"
    if token.kind == STRING:
        return "a string"
    if token.kind in (INT, FLOAT):
        return f"the number `{token.text}`"
    return f"`{token.text}`"

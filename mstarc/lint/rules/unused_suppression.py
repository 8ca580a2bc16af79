"""A comment that allows a lint which does not occur there.

`mstarc.lint.suppressions` knows the comments and which of them took something away; it calls
`report`, since that is known only when all other rules have run.
"""

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, finding, removal
from mstarc.lint.comments import can_be_allowed
from mstarc.source import Span


def report(word: str, code: str | None, span: Span, *, whole: Span | None) -> Diagnostic:
    """The finding for one code or name. `whole` is the comment, where nothing else is in it."""
    if code is None:
        label, note = "no code and no name of a lint", ""
    elif not can_be_allowed(code):
        label, note = f"{code} is no lint", "errors cannot be allowed: they are repaired"
    else:
        label, note = "does not occur here", ""
    found = finding("MS1001", span, f"`{word}` is allowed for nothing", label)
    found = found.note(note) if note else found
    return found.with_fix(removal(whole, "remove the comment", safe=True)) if whole else found


RULE = Rule(code="MS1001", group="style", check=None)

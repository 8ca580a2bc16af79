"""A comment that allows a lint and does not say why.

Reported by `mstarc.lint.suppressions`, which reads the comments.
"""

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, finding
from mstarc.source import Span


def report(span: Span) -> Diagnostic:
    """The finding for one comment."""
    return finding("MS1002", span, "a lint is allowed without a reason", "why?").help(
        "say it behind the bracket: `# mstarc: allow[MS1003] kept for the demo`"
    )


RULE = Rule(code="MS1002", group="style", check=None)

"""Workflow commands that GitHub shows as annotations of a pull request.

Everything that a command could take for its own syntax is percent-encoded: in properties more
characters than in the message.
"""

from mstarc.diagnostics.diagnostic import Diagnostic
from mstarc.diagnostics.render.concise import summary
from mstarc.diagnostics.report import Report

_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = str.maketrans(
    {"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"},
)


def render_github(report: Report) -> str:
    """A command for every finding; an empty text without findings."""
    return "".join(f"{_command(report, diagnostic)}\n" for diagnostic in report.diagnostics)


def _command(report: Report, diagnostic: Diagnostic) -> str:
    span = diagnostic.primary.span
    properties: dict[str, object] = {}
    if span.path:
        properties["file"] = span.path
    start, end = report.start(span), report.end(span)
    if start is not None and end is not None:
        properties["line"] = start.line
        if start.line == end.line:  # columns of two lines cannot be compared
            properties |= {"col": start.column, "endLine": end.line, "endColumn": end.column}
        else:
            properties["endLine"] = end.line
    properties["title"] = f"mstarc {diagnostic.code}"
    settings = ",".join(
        f"{name}={str(value).translate(_IN_PROPERTY)}" for name, value in properties.items()
    )
    message = "\n".join(
        [
            summary(diagnostic),
            *(f"note: {note}" for note in diagnostic.notes),
            *(f"help: {text}" for text in diagnostic.helps),
        ]
    )
    kind = report.entry(diagnostic).severity
    return f"::{kind} {settings}::{message.translate(_IN_MESSAGE)}"

"""One finding a line, for `grep` and editors: `path:line:column: error[code] headline: why`."""

from mstarc.diagnostics.diagnostic import Diagnostic
from mstarc.diagnostics.render.frame import visible
from mstarc.diagnostics.report import Report


def render_concise(report: Report) -> str:
    """A line for every finding; an empty text without findings."""
    return "".join(f"{_line(report, diagnostic)}\n" for diagnostic in report.diagnostics)


def _line(report: Report, diagnostic: Diagnostic) -> str:
    place = diagnostic.primary.span.path or "mstarc"
    if (start := report.start(diagnostic.primary.span)) is not None:
        place += f":{start.line}:{start.column}"
    head = f"{place}: {report.entry(diagnostic).severity}[{diagnostic.code}]"
    # What was meant is half of what is said about a name; other helps need room.
    meant = next((f" ({h})" for h in diagnostic.helps if h.startswith("did you mean")), "")
    return visible(f"{head} {summary(diagnostic)}{meant}".replace("\n", " "))


def summary(diagnostic: Diagnostic) -> str:
    """The headline, and the primary label's text where there is one."""
    why = diagnostic.primary.text
    return f"{diagnostic.message}: {why}" if why else diagnostic.message

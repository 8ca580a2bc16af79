"""One JSON object a finding and line, for scripts. `schema` grows when a field changes meaning.

Lines and columns begin at 1 and the end column is the one after the last character; offsets begin
at 0. Both count code points.
"""

import json

from mstarc.diagnostics.diagnostic import Diagnostic, Label
from mstarc.diagnostics.fingerprint import fingerprints
from mstarc.diagnostics.report import Report
from mstarc.source import Span

SCHEMA = 1


def render_jsonl(report: Report) -> str:
    """A line for every finding; an empty text without findings."""
    names = fingerprints(report.diagnostics, report.sources)
    return "".join(
        json.dumps(_object(report, diagnostic, name), ensure_ascii=False) + "\n"
        for diagnostic, name in zip(report.diagnostics, names, strict=True)
    )


def _object(report: Report, diagnostic: Diagnostic, fingerprint: str) -> dict[str, object]:
    entry = report.entry(diagnostic)
    result: dict[str, object] = {
        "schema": SCHEMA,
        "code": diagnostic.code,
        "name": entry.name,
        "severity": entry.severity,
        "message": diagnostic.message,
        "file": diagnostic.primary.span.path,
        "span": _span(report, diagnostic.primary.span),
        "labels": [
            _label(report, diagnostic.primary, primary=True),
            *(_label(report, label, primary=False) for label in diagnostic.labels),
        ],
        "notes": list(diagnostic.notes),
        "help": list(diagnostic.helps),
        "fix": None,
        "fingerprint": fingerprint,
    }
    if (fix := diagnostic.fix) is not None:
        result["fix"] = {
            "applicability": fix.applicability,
            "message": fix.message,
            "edits": [
                {
                    "file": edit.span.path,
                    "span": _span(report, edit.span),
                    "text": edit.text,
                }
                for edit in fix.edits
            ],
        }
    return result


def _label(report: Report, label: Label, *, primary: bool) -> dict[str, object]:
    return {
        "text": label.text,
        "primary": primary,
        "file": label.span.path,
        "span": _span(report, label.span),
    }


def _span(report: Report, span: Span) -> dict[str, int] | None:
    """The place, or none in a file whose text is not known."""
    start, end = report.start(span), report.end(span)
    if start is None or end is None:
        return None
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
        "startOffset": span.start,
        "endOffset": span.end,
    }

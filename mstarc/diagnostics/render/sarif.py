"""SARIF 2.1.0, for code scanning: one run with the rules that fired and their results."""

import json

from mstarc.diagnostics.catalog import CATALOG
from mstarc.diagnostics.diagnostic import Diagnostic, Edit, Fix, Label
from mstarc.diagnostics.fingerprint import fingerprints
from mstarc.diagnostics.render.concise import summary
from mstarc.diagnostics.report import Report
from mstarc.resources import error_page
from mstarc.source import Span

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT_ID = "ROOT"

Json = dict[str, object]


def render_sarif(report: Report) -> str:
    """One document, also without findings: an empty result list closes old alerts."""
    codes = sorted({diagnostic.code for diagnostic in report.diagnostics})
    names = fingerprints(report.diagnostics, report.sources)
    run: Json = {
        "tool": {
            "driver": {
                "name": "mstarc",
                "version": report.version,
                "rules": [_rule(code) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            ROOT_ID: {"description": {"text": "the folder that mstarc was started in"}}
        },
        "results": [
            _result(report, diagnostic, codes.index(diagnostic.code), name)
            for diagnostic, name in zip(report.diagnostics, names, strict=True)
        ],
    }
    document = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _rule(code: str) -> Json:
    entry = CATALOG[code]
    rule: Json = {
        "id": code,
        "name": "".join(word.capitalize() for word in entry.name.split("-")),
        "shortDescription": {"text": entry.name.replace("-", " ")},
        "defaultConfiguration": {"level": entry.severity},
        "properties": {"tags": [entry.group]},
    }
    if (page := error_page(code)) is not None:
        rule["help"] = {"text": page, "markdown": page}
    return rule


def _result(report: Report, diagnostic: Diagnostic, rule: int, fingerprint: str) -> Json:
    text = "\n".join(
        [
            summary(diagnostic),
            *(f"note: {note}" for note in diagnostic.notes),
            *(f"help: {help_text}" for help_text in diagnostic.helps),
        ]
    )
    result: Json = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": report.entry(diagnostic).severity,
        "message": {"text": text},
        "partialFingerprints": {"mstarc/v1": fingerprint},
    }
    if diagnostic.primary.span.path:
        result["locations"] = [_location(report, diagnostic.primary)]
    if diagnostic.labels:
        result["relatedLocations"] = [
            {"id": index, **_location(report, label)}
            for index, label in enumerate(diagnostic.labels, 1)
        ]
    if diagnostic.fix is not None:
        result["fixes"] = [_fix(report, diagnostic.fix)]
    return result


def _location(report: Report, label: Label) -> Json:
    physical: Json = {"artifactLocation": _artifact(label.span.path)}
    if (region := _region(report, label.span)) is not None:
        physical["region"] = region
    location: Json = {"physicalLocation": physical}
    if label.text:
        location["message"] = {"text": label.text}
    return location


def _artifact(path: str) -> Json:
    if path.startswith("/"):
        return {"uri": f"file://{path}"}
    return {"uri": path, "uriBaseId": ROOT_ID}


def _region(report: Report, span: Span) -> Json | None:
    start, end = report.start(span), report.end(span)
    if start is None or end is None:
        return None
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
        "charOffset": span.start,
        "charLength": span.end - span.start,
    }


def _fix(report: Report, fix: Fix) -> Json:
    paths = sorted({edit.span.path for edit in fix.edits})
    return {
        "description": {"text": fix.message},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(path),
                "replacements": [
                    _replacement(report, edit) for edit in fix.edits if edit.span.path == path
                ],
            }
            for path in paths
        ],
    }


def _replacement(report: Report, edit: Edit) -> Json:
    region = _region(report, edit.span)
    assert region is not None, "an edit of a file whose text is not known"
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}

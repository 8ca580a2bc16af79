"""One mistake at several places → one finding.

A name that nothing declares, or a value that no stream takes, is wrong wherever it stands: the
first place is told, and the others beside it. An editor underlines each of them and folds none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mstarc.diagnostics.catalog import CATALOG
from mstarc.diagnostics.diagnostic import Diagnostic, Fix

MOST_SHOWN = 4
"""Further places that are shown; of more, how many there are is said."""


def folded(findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings, errors that say the same of several places as one, in order of the first."""
    groups: dict[object, list[Diagnostic]] = {}
    for finding in findings:
        # What there is instead differs from place to place.
        helps = [text for text in finding.helps if not text.startswith("what there is:")]
        said = (finding.code, finding.message, finding.primary.text, finding.notes, *helps)
        key: object = (said, finding.primary.span.path)
        if CATALOG[finding.code].severity != "error":
            key = id(finding)
        groups.setdefault(key, []).append(finding)
    for group in groups.values():
        yield group[0] if len(group) == 1 else _one_of(group)


def _one_of(group: list[Diagnostic]) -> Diagnostic:
    first, *others = group
    for other in others[:MOST_SHOWN]:
        first = first.label(other.primary.span, "here too")
    if len(others) > MOST_SHOWN:
        first = first.note(f"and at {len(others) - MOST_SHOWN} more places")
    fixes = [finding.fix for finding in group if finding.fix is not None]
    if first.fix is None or len(fixes) < len(group):
        return replace(first, fix=None)
    edits = dict.fromkeys(edit for fix in fixes for edit in fix.edits)
    return first.with_fix(
        Fix(message=first.fix.message, edits=tuple(edits), applicability=first.fix.applicability)
    )

"""What comments allow, and which comments are of no use.

Which of them took away nothing, or say no reason, is known here and reported by two rules of their
own. What a comment is says `mstarc.lint.comments`.
"""

from collections.abc import Iterable, Iterator

from mstarc.diagnostics import CATALOG, Diagnostic, did_you_mean
from mstarc.lint.comments import Suppression, allowing, can_be_allowed, code_of, suppressions_in
from mstarc.lint.rules import suppression_without_reason, unused_suppression
from mstarc.lint.select import Selection
from mstarc.source import SourceFile, Span


def apply_suppressions(
    findings: Iterable[Diagnostic], source: SourceFile, chosen: Selection
) -> Iterator[Diagnostic]:
    """The findings of one file that nothing allows, and those about the comments themselves."""
    comments = suppressions_in(source)
    useful: set[Span] = set()
    for finding in findings:
        spans = allowing(finding, comments, source)
        useful.update(spans)
        if not spans:
            yield finding
    for comment in comments:
        if not comment.reason:
            yield from _if_chosen(suppression_without_reason.report(comment.span), chosen)
        for word, span in comment.words:
            if span in useful:
                continue
            code = code_of(word)
            if code is not None and code.startswith("MS1") and code not in chosen.enabled:
                continue  # its rule did not run, so nothing is known about it
            alone = len(comment.words) == 1
            found = unused_suppression.report(
                word, code, span, whole=_removed(comment, source) if alone else None
            )
            if code is None:
                names = [entry.name for entry in CATALOG.values() if can_be_allowed(entry.code)]
                near = did_you_mean(word, names)
                found = found.help(f"did you mean `{near[0]}`?") if near else found
            yield from _if_chosen(found, chosen)


def _if_chosen(finding: Diagnostic, chosen: Selection) -> Iterator[Diagnostic]:
    if finding.code in chosen.enabled:
        yield finding


def _removed(comment: Suppression, source: SourceFile) -> Span:
    """The comment with the spaces before it, or with its line where it is alone on it."""
    line = source.position(comment.span.start).line
    start = source.line_starts[line - 1]
    before = source.text[start : comment.span.start]
    if not before.strip():
        end = min(comment.span.end + 1, len(source.text))
        return Span(path=source.path, start=start, end=end)
    return Span(path=source.path, start=start + len(before.rstrip()), end=comment.span.end)

"""Comments that allow a lint at one place: `# mstarc: allow[MS1003, unused-op] why it is right`.

At the end of a line it counts for that line; on a line of its own, for the next line that is no
comment. It takes away lints (MS1xxx) that begin on its line, and never an error. Which comments
took away nothing, or say no reason, is known here and reported by two rules of their own.
"""

import re
from collections.abc import Iterable, Iterator

from mstarc.diagnostics import CATALOG, Diagnostic, did_you_mean
from mstarc.lint.rules import suppression_without_reason, unused_suppression
from mstarc.lint.select import Selection
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span

_COMMENT = re.compile(r"#+[ \t]*mstarc:[ \t]*allow\[(?P<words>[^\]\n]*)\](?P<reason>[^\n#]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One comment. `words` are codes or names with their places; `line` (from 1) it counts for."""

    words: tuple[tuple[str, Span], ...]
    reason: str
    line: int
    span: Span


def suppressions_in(source: SourceFile) -> list[Suppression]:
    """The suppressions of a spec or a deployment, in order."""
    if "mstarc:" not in source.text:
        return []
    found = []
    for number in range(1, len(source.line_starts) + 1):
        start = source.line_starts[number - 1]
        text = source.line_text(number)
        comment = _COMMENT.search(text, _comment_start(text))
        if comment is None:
            continue
        own_line = not text[: comment.start()].strip()
        found.append(
            Suppression(
                words=tuple(_words(comment, source.path, start)),
                reason=comment["reason"].strip(" \t-:"),
                line=_next_line(source, number) if own_line else number,
                span=Span(
                    path=source.path, start=start + comment.start(), end=start + len(text.rstrip())
                ),
            )
        )
    return found


def apply_suppressions(
    findings: Iterable[Diagnostic], source: SourceFile, chosen: Selection
) -> Iterator[Diagnostic]:
    """The findings of one file that nothing allows, and those about the comments themselves."""
    comments = suppressions_in(source)
    useful: set[Span] = set()
    for finding in findings:
        line = source.position(finding.primary.span.start).line
        spans = [
            span
            for comment in comments
            for word, span in comment.words
            if comment.line == line and _code_of(word) == finding.code
        ]
        useful.update(spans)
        if not spans:
            yield finding
    for comment in comments:
        if not comment.reason:
            yield from _if_chosen(suppression_without_reason.report(comment.span), chosen)
        for word, span in comment.words:
            if span in useful:
                continue
            code = _code_of(word)
            if code is not None and code.startswith("MS1") and code not in chosen.enabled:
                continue  # its rule did not run, so nothing is known about it
            alone = len(comment.words) == 1
            found = unused_suppression.report(
                word, code, span, whole=_removed(comment, source) if alone else None
            )
            if code is None:
                names = [entry.name for entry in CATALOG.values() if entry.code.startswith("MS1")]
                near = did_you_mean(word, names)
                found = found.help(f"did you mean `{near[0]}`?") if near else found
            yield from _if_chosen(found, chosen)


def _if_chosen(finding: Diagnostic, chosen: Selection) -> Iterator[Diagnostic]:
    if finding.code in chosen.enabled:
        yield finding


def _code_of(word: str) -> str | None:
    if word.upper() in CATALOG:
        return word.upper()
    return next((entry.code for entry in CATALOG.values() if entry.name == word.lower()), None)


def _words(comment: re.Match[str], path: str, line_start: int) -> Iterator[tuple[str, Span]]:
    for word in re.finditer(r"[^\s,]+", comment["words"]):
        start = line_start + comment.start("words") + word.start()
        yield word[0], Span(path=path, start=start, end=start + len(word[0]))


def _comment_start(line: str) -> int:
    """Where the comment of a line begins: a `#` that stands in no string."""
    in_string = False
    for index, character in enumerate(line):
        if character == '"' and (index == 0 or line[index - 1] != "\\"):
            in_string = not in_string
        elif character == "#" and not in_string:
            return index
    return len(line)


def _next_line(source: SourceFile, number: int) -> int:
    """The next line that is neither empty nor only a comment."""
    for following in range(number + 1, len(source.line_starts) + 1):
        text = source.line_text(following).strip()
        if text and not text.startswith("#"):
            return following
    return number


def _removed(comment: Suppression, source: SourceFile) -> Span:
    """The comment with the spaces before it, or with its line where it is alone on it."""
    line = source.position(comment.span.start).line
    start = source.line_starts[line - 1]
    before = source.text[start : comment.span.start]
    if not before.strip():
        end = min(comment.span.end + 1, len(source.text))
        return Span(path=source.path, start=start, end=end)
    return Span(path=source.path, start=start + len(before.rstrip()), end=comment.span.end)

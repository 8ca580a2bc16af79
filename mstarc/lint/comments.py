"""Comments that allow a finding at one place: `# mstarc: allow[MS1003, unused-op] why it is right`.

At the end of a line it counts for that line; on a line of its own, for the next line that is no
comment. It takes away warnings that begin on its line, of the compiler and of lints, and never an
error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from mstarc.diagnostics import CATALOG, Diagnostic
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


def allowing(
    finding: Diagnostic, comments: Iterable[Suppression], source: SourceFile
) -> tuple[Span, ...]:
    """The words of `comments`, those of `source`, that allow a finding in it."""
    if not can_be_allowed(finding.code):
        return ()
    line = source.position(finding.primary.span.start).line
    return tuple(
        span
        for comment in comments
        for word, span in comment.words
        if comment.line == line and code_of(word) == finding.code
    )


def without_allowed(
    findings: tuple[Diagnostic, ...], sources: Mapping[str, SourceFile]
) -> tuple[Diagnostic, ...]:
    """The findings that no comment allows."""
    if not any("mstarc:" in source.text for source in sources.values()):
        return findings
    comments = {path: suppressions_in(source) for path, source in sources.items()}
    return tuple(
        finding
        for finding in findings
        if (path := finding.primary.span.path) not in sources
        or not allowing(finding, comments[path], sources[path])
    )


def can_be_allowed(code: str) -> bool:
    """Whether a code is a lint or a warning of the compiler."""
    return code.startswith("MS1") or CATALOG[code].severity == "warning"


def code_of(word: str) -> str | None:
    """The code that a word of a comment means, if any."""
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

"""Open documents: the text as the editor has it, and what the compiler knows of it."""

from dataclasses import dataclass, field, replace

from mstarc import driver
from mstarc.diagnostics import Diagnostic
from mstarc.driver import Inspection
from mstarc.lint.select import Selection
from mstarc.lsp.index import Index, index_of
from mstarc.lsp.pieces import PieceParser
from mstarc.source import SourceFile, Span


@dataclass(slots=True)
class Document:
    """One open text. `latest` is what was inspected last, perhaps of an older text."""

    path: str
    text: str
    parser: PieceParser = field(default_factory=PieceParser)
    _latest: Inspection | None = None
    _index: Index | None = None
    _lints: tuple[Diagnostic, ...] = ()

    @property
    def source(self) -> SourceFile:
        """The text as it is now."""
        if self._latest is not None and self._latest.source.text == self.text:
            return self._latest.source
        return SourceFile(path=self.path, text=self.text)

    def change(self, text: str) -> None:
        """Take a new text; opinions about the old one move with their lines."""
        self._lints = moved(self._lints, self.text, text)
        self.text = text

    @property
    def latest(self) -> Inspection:
        """What is known, perhaps of the text before the last change."""
        return self._latest if self._latest is not None else self.inspect()

    def inspect(self) -> Inspection:
        """What is known of the text as it is now, without opinions."""
        if self._latest is None or self._latest.source.text != self.text:
            self._latest = driver.inspect(self.source, read=self.parser.parse)
            self._index = None
        return self._latest

    def lint(self) -> Inspection:
        """The same with opinions, and after a mistake of syntax with all that the whole shows."""
        found = self.inspect()
        if found.diagnostics:
            found = driver.inspect(self.source)
        found = driver.with_opinions(found, Selection())
        self._lints = tuple(d for d in found.diagnostics if d.code.startswith("MS1"))
        self._latest = found
        return found

    @property
    def index(self) -> Index:
        """The names of `latest`."""
        if self._index is None:
            self._index = index_of(self.latest)
        return self._index

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings in the text as it is now, with the opinions that were given before."""
        found = self.inspect().diagnostics
        if any(finding.code.startswith("MS1") for finding in found):
            return found
        return (*found, *(() if found else self._lints))


def moved(findings: tuple[Diagnostic, ...], old: str, new: str) -> tuple[Diagnostic, ...]:
    """Findings in a text after a change: those before and behind it, where they are now."""
    if not findings or old == new:
        return findings
    start = _alike(old, new)
    tail = _alike(old[start:][::-1], new[start:][::-1])
    end, delta = len(old) - tail, len(new) - len(old)
    return tuple(
        found for finding in findings if (found := _moved(finding, start, end, delta)) is not None
    )


def _moved(finding: Diagnostic, start: int, end: int, delta: int) -> Diagnostic | None:
    spans = [finding.primary.span, *(label.span for label in finding.labels)]
    if finding.fix is not None:
        spans += [edit.span for edit in finding.fix.edits]
    if any(span.start < end and start < span.end for span in spans):
        return None

    def move(span: Span) -> Span:
        by = delta if span.start >= end else 0
        return Span(path=span.path, start=span.start + by, end=span.end + by)

    fix = finding.fix
    return replace(
        finding,
        primary=replace(finding.primary, span=move(finding.primary.span)),
        labels=tuple(replace(label, span=move(label.span)) for label in finding.labels),
        fix=None
        if fix is None
        else replace(fix, edits=tuple(replace(e, span=move(e.span)) for e in fix.edits)),
    )


def _alike(left: str, right: str) -> int:
    """How many characters two texts begin with alike. Halves, since slices compare fast."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

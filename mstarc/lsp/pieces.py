"""Parse a text again after a change, but only the declarations that changed.

A declaration whose first word begins a line is a piece of its own: parsed by itself it gives the
tree that it gives in the whole file. `PieceParser` keeps the trees of the pieces. A piece with a
mistake is parsed together with the piece after it, so that what the message says of the place
behind it is true.

Where a piece only moved, its tree is the same tree and its spans are set anew, in place: the one
exception to spans that never change, and the reason why a keystroke at the top of a long spec is
answered in time. So a tree is good until the next text is parsed; `Document` keeps no older one.
"""

import re
from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

_BEGIN = re.compile(
    r"^(?=(?:config|variant|request|need|let|table|folded|node|stream|walk|machine)\b)",
    re.MULTILINE,
)
_HEAD = "mstar 1 model m\n"
"""What makes a piece a whole spec."""

MOST_KEPT = 4096


@dataclass(slots=True, kw_only=True)
class _Piece:
    """The declarations of a piece and its mistakes. `spans` are all places in them, each once."""

    base: int
    declarations: tuple[ast.Decl, ...]
    diagnostics: tuple[Diagnostic, ...]
    spans: tuple[Span, ...]

    def move(self, base: int) -> None:
        """Let the piece begin at `base`."""
        delta = base - self.base
        if not delta:
            return
        for span in self.spans:
            object.__setattr__(span, "start", span.start + delta)
            object.__setattr__(span, "end", span.end + delta)
        self.base = base


class PieceParser:
    """Parses the versions of one text. Use one for every open document."""

    def __init__(self) -> None:
        # Of two pieces of one text each has a tree of its own.
        self._kept: dict[tuple[str, int], _Piece] = {}

    def parse(self, source: SourceFile, sink: DiagnosticSink) -> ast.Spec | None:
        """The tree of a spec; mistakes go to `sink`. What `syntax.parser.parse` gives."""
        head, pieces = _split(source.text)
        first = DiagnosticSink()
        spec = parse(SourceFile(path=source.path, text=head), first)
        if spec is None or first.diagnostics or spec.declarations or not pieces:
            # Something is odd about the start: rare, and not worth another way.
            return parse(source, sink)
        used: dict[tuple[str, int], _Piece] = {}
        declarations: list[ast.Decl] = []
        index = 0
        while index < len(pieces):
            base, text = pieces[index]
            parsed = self._piece(source.path, base, text, used)
            index += 1
            if parsed.diagnostics and index < len(pieces):
                text += pieces[index][1]
                parsed = self._piece(source.path, base, text, used)
                index += 1
            declarations.extend(parsed.declarations)
            for found in parsed.diagnostics:
                sink.report(found)
        self._kept = used if len(used) < MOST_KEPT else {}
        end = max(spec.span.end, declarations[-1].span.end if declarations else 0)
        return ast.Spec(
            span=Span(path=source.path, start=spec.span.start, end=end),
            version=spec.version,
            model=spec.model,
            declarations=tuple(declarations),
        )

    def _piece(
        self, path: str, base: int, text: str, used: dict[tuple[str, int], _Piece]
    ) -> _Piece:
        number = 0
        while (text, number) in used:
            number += 1
        piece = self._kept.get((text, number))
        if piece is None:
            piece = _read(path, text)
        piece.move(base)
        used[text, number] = piece
        return piece


def _split(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The text before the first declaration, and the pieces with their offsets.

    The `##` lines right above a declaration belong to it.
    """
    starts = [found.start() for found in _BEGIN.finditer(text)]
    begins: list[int] = []
    for start in starts:
        while start and text.startswith("##", line := text.rfind("\n", 0, start - 1) + 1):
            start = line
        begins.append(start)
    ends = [*begins[1:], len(text)]
    pieces = [(start, text[start:end]) for start, end in zip(begins, ends, strict=True)]
    return text[: begins[0]] if begins else text, pieces


def _read(path: str, text: str) -> _Piece:
    sink = DiagnosticSink()
    spec = parse(SourceFile(path=path, text=_HEAD + text), sink)
    declarations = spec.declarations if spec is not None else ()
    diagnostics = sink.diagnostics
    spans = {id(span): span for span in _spans(declarations, diagnostics)}
    return _Piece(
        base=len(_HEAD),
        declarations=declarations,
        diagnostics=diagnostics,
        spans=tuple(spans.values()),
    )


def _spans(
    declarations: tuple[ast.Decl, ...], diagnostics: tuple[Diagnostic, ...]
) -> Iterator[Span]:
    for declaration in declarations:
        for node in ast.descendants(declaration):
            yield node.span
    for finding in diagnostics:
        yield finding.primary.span
        yield from (label.span for label in finding.labels)
        if finding.fix is not None:
            yield from (edit.span for edit in finding.fix.edits)

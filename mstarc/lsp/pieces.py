"""Parse a text again after a change, but only the declarations that changed.

A declaration whose first word begins a line is a piece of its own: parsed by itself it gives the
tree that it gives in the whole file. `PieceParser` keeps the trees of the pieces; where one only
moved, its tree is the old one with other spans. A piece with a mistake is parsed together with the
piece after it, so that what the message says of the place behind it is true.
"""

import re
from dataclasses import fields
from functools import cache
from typing import Any

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Edit, Fix, Label
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

_BEGIN = re.compile(
    r"^(?=(?:config|request|need|let|table|folded|node|stream|walk|machine)\b)", re.MULTILINE
)
_HEAD = "mstar 1 model m\n"
"""What makes a piece a whole spec."""

MOST_KEPT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    """A piece: its declarations and its mistakes, `base` being where it began when it was read."""

    base: int
    declarations: tuple[ast.Decl, ...]
    diagnostics: tuple[Diagnostic, ...]


class PieceParser:
    """Parses the versions of one text. Use one for every open document."""

    def __init__(self) -> None:
        self._kept: dict[str, _Parsed] = {}

    def parse(self, source: SourceFile, sink: DiagnosticSink) -> ast.Spec | None:
        """The tree of a spec; mistakes go to `sink`. What `syntax.parser.parse` gives."""
        head, pieces = _split(source.text)
        first = DiagnosticSink()
        spec = parse(SourceFile(path=source.path, text=head), first)
        if spec is None or first.diagnostics or spec.declarations or not pieces:
            # Something is odd about the start: rare, and not worth another way.
            return parse(source, sink)
        used: dict[str, _Parsed] = {}
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
        start, end = (
            spec.span.start,
            max(spec.span.end, declarations[-1].span.end) if declarations else 0,
        )
        return ast.Spec(
            span=Span(path=source.path, start=start, end=end or spec.span.end),
            version=spec.version,
            model=spec.model,
            declarations=tuple(declarations),
        )

    def _piece(self, path: str, base: int, text: str, used: dict[str, _Parsed]) -> _Parsed:
        kept = self._kept.get(text)
        if kept is None or kept.base != base:
            if kept is None:
                kept = _read(path, text)
            delta = base - kept.base
            kept = _Parsed(
                base=base,
                declarations=tuple(_moved(tree, delta) for tree in kept.declarations),
                diagnostics=tuple(_moved_diagnostic(found, delta) for found in kept.diagnostics),
            )
        used[text] = kept
        return kept


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


def _read(path: str, text: str) -> _Parsed:
    sink = DiagnosticSink()
    spec = parse(SourceFile(path=path, text=_HEAD + text), sink)
    declarations = spec.declarations if spec is not None else ()
    return _Parsed(base=len(_HEAD), declarations=declarations, diagnostics=sink.diagnostics)


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _moved(value: Any, delta: int) -> Any:
    """A tree with every span `delta` further on."""
    if isinstance(value, ast.Node):
        kind: Any = type(value)
        if kind is ast.Name:
            return ast.Name(span=_moved_span(value.span, delta), text=value.text)  # type: ignore[attr-defined]  # a node with a text
        return kind(**{name: _moved(getattr(value, name), delta) for name in _fields(kind)})
    if isinstance(value, Span):
        return _moved_span(value, delta)
    if isinstance(value, tuple):
        return tuple(_moved(entry, delta) for entry in value)
    return value


def _moved_span(span: Span, delta: int) -> Span:
    return Span(path=span.path, start=span.start + delta, end=span.end + delta)


def _moved_diagnostic(found: Diagnostic, delta: int) -> Diagnostic:
    return Diagnostic(
        code=found.code,
        message=found.message,
        primary=_moved_label(found.primary, delta),
        labels=tuple(_moved_label(label, delta) for label in found.labels),
        notes=found.notes,
        helps=found.helps,
        fix=None if found.fix is None else _moved_fix(found.fix, delta),
    )


def _moved_label(label: Label, delta: int) -> Label:
    return Label(span=_moved_span(label.span, delta), text=label.text)


def _moved_fix(fix: Fix, delta: int) -> Fix:
    edits = tuple(Edit(span=_moved_span(edit.span, delta), text=edit.text) for edit in fix.edits)
    return Fix(message=fix.message, edits=edits, applicability=fix.applicability)

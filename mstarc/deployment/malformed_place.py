"""A place in a text that is no YAML, and the lines around it."""

import re
from typing import Any

from mstarc.diagnostics import Diagnostic, Fix, Label
from mstarc.source import SourceFile, Span

KEY = re.compile(r"\s*(?:- )?\s*([A-Za-z_][\w-]*)")

# A text in quotes and a comment hold no bracket.
_BRACKETS = re.compile(r"""\"(?:[^"\\]|\\.)*"|'[^']*'|(?:^|\s)\#[^\n]*|[\[\]{}]""", re.DOTALL)


class Place:
    """Where the library stopped, and what stands there."""

    def __init__(self, file: SourceFile, error: Any, code: str) -> None:
        self.file = file
        self.code = code
        self.problem: str = getattr(error, "problem", None) or ""
        self.context: str = getattr(error, "context", None) or ""
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        begun = getattr(error, "context_mark", None)
        length = len(file.text)
        self.at = min(mark.index, length) if mark is not None else length
        self.begun: int | None = min(begun.index, length) if begun is not None else None
        self.line = file.position(self.at).line

    @property
    def character(self) -> str:
        return self.file.text[self.at : self.at + 1]

    def span(self, start: int, end: int | None = None) -> Span:
        length = len(self.file.text)
        start = min(start, length)
        return Span(
            path=self.file.path, start=start, end=min(start + 1 if end is None else end, length)
        )

    def text(self, line: int) -> str:
        return self.file.line_text(line) if 1 <= line <= len(self.file.line_starts) else ""

    def indent(self, line: int) -> int:
        text = self.text(line)
        return len(text) - len(text.lstrip(" "))

    def line_span(self, line: int) -> Span:
        """What stands on a line, without the spaces and the comment around it."""
        text = self.text(line)
        start = self.file.line_starts[line - 1] + self.indent(line)
        shown = re.split(r"\s#", text)[0].strip()
        return self.span(start, start + max(len(shown), 1))

    def line_before(self) -> int | None:
        """The nearest line above the place that says something."""
        return self.line_above(self.line)

    def line_above(self, line: int) -> int | None:
        """The nearest line above `line` that says something."""
        line -= 1
        while line and (not self.text(line).strip() or self.text(line).lstrip().startswith("#")):
            line -= 1
        return line or None

    def open_bracket(self) -> int | None:
        """The innermost `[` or `{` that is open at the place, as far as marks alone tell."""
        found: list[int] = []
        for piece in _BRACKETS.finditer(self.file.text, 0, self.at):
            if piece[0] in ("[", "{"):
                found.append(piece.start())
            elif piece[0] in ("]", "}") and found:
                found.pop()
        return found[-1] if found else None

    def found(
        self, place: "int | Span", message: str, label: str, *helps: str, fix: Fix | None = None
    ) -> Diagnostic:
        span = self.span(place) if isinstance(place, int) else place
        primary = Label(span=span, text=label)
        return Diagnostic(code=self.code, message=message, primary=primary, helps=helps, fix=fix)

"""A source text and its lines."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from mstarc.source.span import Span


@dataclass(frozen=True, order=True)
class Position:
    """A place as people count it: `line` and `column` start at 1, columns in code points."""

    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """The text of one file. `path` is as the user gave it, with `/`."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first code point of every line. Only `\\n` ends a line."""
        starts = [0]
        starts.extend(found.end() for found in re.finditer("\n", self.text))
        return tuple(starts)

    def position(self, offset: int) -> Position:
        """Line and column of `offset`; an offset at or past the end is the end of the text."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.line_starts, offset) - 1
        return Position(line + 1, offset - self.line_starts[line] + 1)

    def line_text(self, line: int) -> str:
        """The text of the 1-based `line`, without its line end."""
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def slice(self, span: Span) -> str:
        """The text under `span`."""
        return self.text[span.start : span.end]

    @property
    def end_span(self) -> Span:
        """The zero-width span at the end of the text."""
        return Span(path=self.path, start=len(self.text), end=len(self.text))

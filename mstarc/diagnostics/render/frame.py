"""Draw lines of a source text with marks under them and texts beside the marks.

A mark covers cells of one line. The text of the mark that ends furthest right stands beside it,
the others hang below, each under its own bar:

    stream codes : i64 chunk sliding(window = 28, stride = 35) tail drop
           -----                     -----------  ^^^^^^^^^^^ moves 35 items forward
           |                         |
           |                         but a window holds 28
           read by walk `vocode`
"""

import unicodedata

from mstarc.diagnostics.diagnostic import Label
from mstarc.records import dataclass
from mstarc.source import SourceFile

TAB_CELLS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Cells `[start, end)` of a line, drawn with `sign`; `text` stands beside or below."""

    start: int
    end: int
    sign: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedLine:
    """A source line as shown, its number (from 1), and the rows of marks under it."""

    number: int
    text: str
    rows: tuple[str, ...]


def visible(text: str) -> str:
    """`text` as a terminal shows it: tabs expanded, other control characters replaced."""
    parts = []
    cell = 0
    for char in text:
        if char == "\t":
            shown = " " * (TAB_CELLS - cell % TAB_CELLS)
        else:
            shown = "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) == "Cc" else char
        parts.append(shown)
        cell += cells(shown)
    return "".join(parts)


def cells(text: str) -> int:
    """How many terminal cells a text without tabs takes."""
    return sum(_char_cells(char) for char in text)


def _char_cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def marked_lines(source: SourceFile, labels: tuple[tuple[Label, str], ...]) -> list[MarkedLine]:
    """The lines that `labels` touch, each label with its sign, in the order of the file.

    A label over several lines marks its first and its last one; its text is at the last.
    """
    marks: dict[int, list[Mark]] = {}
    for label, sign in labels:
        start, end = source.position(label.span.start), source.position(label.span.end)
        if end.line > start.line and end.column == 1:  # the span ends with the line end before
            end = source.position(label.span.end - 1)
        for number in dict.fromkeys((start.line, end.line)):
            text = source.line_text(number).removesuffix("\r")
            first = start.column - 1 if number == start.line else len(text) - len(text.lstrip())
            last = end.column - 1 if number == end.line else len(text)
            left = cells(visible(text[:first]))
            right = cells(visible(text[:last]))
            said = label.text if number == end.line else ""
            marks.setdefault(number, []).append(
                Mark(start=left, end=max(right, left + 1), sign=sign, text=said)
            )
    return [
        MarkedLine(
            number=number,
            text=visible(source.line_text(number).removesuffix("\r")).rstrip(),
            rows=mark_rows(tuple(marks[number])),
        )
        for number in sorted(marks)
    ]


def mark_rows(marks: tuple[Mark, ...]) -> tuple[str, ...]:
    """The rows under a line. Where marks overlap, one drawn with `^` wins over the others."""
    underline = [" "] * max(mark.end for mark in marks)
    for mark in sorted(marks, key=lambda mark: (mark.sign == "^", mark.start)):
        underline[mark.start : mark.end] = mark.sign * (mark.end - mark.start)
    beside = max(marks, key=lambda mark: (mark.end, mark.start, bool(mark.text)))
    rows = ["".join(underline) + (f" {beside.text}" if beside.text else "")]
    hanging = sorted(
        (mark for mark in marks if mark is not beside and mark.text),
        key=lambda mark: mark.start,
    )
    if hanging:
        rows.append(_bars([mark.start for mark in hanging]))
    while hanging:
        mark = hanging.pop()
        bars = _bars([other.start for other in hanging if other.start < mark.start])
        rows.append(bars.ljust(mark.start) + mark.text)
    return tuple(rows)


def _bars(columns: list[int]) -> str:
    row = [" "] * (max(columns, default=-1) + 1)
    for column in columns:
        row[column] = "|"
    return "".join(row)

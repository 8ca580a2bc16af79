"""Rows of cells to lines: neighbours of a kind line up, and what is too long is broken.

Two rows are neighbours when nothing stands between them, not even a blank line. A cell is padded
only if its row goes on, and only to the widest such cell.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from mstarc.records import dataclass

WIDTH = 100

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(slots=True)
class Row:
    """One line, or more where it has to be broken. Rows of a `kind` line up; none has none.

    Where a row `continues`, its cells go to lines of their own rather than be broken.
    """

    indent: int
    cells: tuple[str, ...]
    kind: str = ""
    comment: str = ""
    continues: bool = False


def lay_out(rows: Sequence[Row]) -> str:
    """The text of the rows; a row without cells and comment is a blank line."""
    lines: list[tuple[str, str]] = []
    for _, run in groupby(rows, key=_neighbours):
        lines.extend(_run_lines(list(run)))
    return "".join(f"{line}\n" for line in _with_comments(lines))


def _neighbours(row: Row) -> object:
    """Equal for rows that line up; a row that is too long by itself stands alone."""
    if not row.kind or len(_plain(row)) > WIDTH:
        return id(row)
    return row.kind, row.indent


def _plain(row: Row) -> str:
    return " " * row.indent + " ".join(cell for cell in row.cells if cell)


def _run_lines(run: list[Row]) -> Iterator[tuple[str, str]]:
    aligned = _aligned(run)
    if any(len(text) > WIDTH for text in aligned):
        aligned = [_plain(row) for row in run]
    for row, text in zip(run, aligned, strict=True):
        too_long = row.continues and len(text) > WIDTH
        *head, last = _continued(row) if too_long else broken(text, row.indent)
        yield from ((line, "") for line in head)
        yield last, row.comment


def _continued(row: Row) -> list[str]:
    """A row whose cells may go on in further lines, as few as fit."""
    first, *rest = (cell.strip() for cell in row.cells if cell)
    margin = " " * (row.indent + 4)
    lines = broken(" " * row.indent + first, row.indent)
    if len(margin + "  ".join(rest)) <= WIDTH:
        rest = ["  ".join(rest)] if rest else []
    return [*lines, *(line for cell in rest for line in broken(margin + cell, row.indent + 4))]


def _aligned(run: list[Row]) -> list[str]:
    columns = max(len(row.cells) for row in run)
    ends = [max((i for i, cell in enumerate(row.cells) if cell), default=0) for row in run]
    widths = [
        max((len(row.cells[i]) for row, end in zip(run, ends, strict=True) if i < end), default=0)
        for i in range(columns)
    ]
    texts = []
    for row, end in zip(run, ends, strict=True):
        padded = [f"{row.cells[i]:<{widths[i]}}" for i in range(end) if widths[i]]
        texts.append((" " * row.indent + " ".join([*padded, *row.cells[end : end + 1]])).rstrip())
    return texts


def _with_comments(lines: list[tuple[str, str]]) -> Iterator[str]:
    """Comments after neighbouring lines of one indentation stand in one column."""
    for indent, group in groupby(lines, key=lambda line: _indentation(line[0])):
        run = list(group)
        column = max((len(text) for text, comment in run if comment), default=0) + 2
        for text, comment in run:
            yield f"{text:<{column}}{comment}" if comment and indent >= 0 else text + comment


def _indentation(text: str) -> int:
    """How far a line is indented; -1 for one without code."""
    return len(text) - len(text.lstrip()) if text.strip() else -1


def broken(text: str, indent: int) -> list[str]:
    """The line in pieces of at most `WIDTH`, broken in its longest list, where it has one."""
    if len(text) <= WIDTH:
        return [text]
    spans = _lists(text)
    if not spans:
        return [text]
    start, end = max(spans, key=lambda span: span[1] - span[0])
    inner = _filled(_items(text[start:end]), indent + 2)
    head, tail = text[:start].rstrip(), " " * indent + text[end:].lstrip()
    return [*broken(head, indent), *inner, *broken(tail, indent)]


def _lists(text: str) -> list[tuple[int, int]]:
    """The insides of the outermost brackets that hold more than one item."""
    spans = []
    depth = start = 0
    masked = _STRING.sub(lambda found: "_" * len(found[0]), text)
    for position, char in enumerate(masked):
        if char in _OPEN:
            if depth == 0:
                start = position + 1
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth == 0 and len(_items(text[start:position])) > 1:
                spans.append((start, position))
    return spans


def _items(text: str) -> list[str]:
    items = []
    depth = start = 0
    masked = _STRING.sub(lambda found: "_" * len(found[0]), text)
    for position, char in enumerate(masked):
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == "," and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    items.append(text[start:].strip())
    return items


def _filled(items: list[str], indent: int) -> list[str]:
    lines: list[str] = []
    current = ""
    for number, item in enumerate(items):
        piece = item + ("," if number < len(items) - 1 else "")
        if current and indent + len(current) + 1 + len(piece) > WIDTH:
            lines.append(" " * indent + current)
            current = piece
        else:
            current = f"{current} {piece}" if current else piece
    return [*lines, " " * indent + current]

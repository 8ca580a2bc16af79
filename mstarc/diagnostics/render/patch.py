"""A fix as the lines that it makes, with the changed cells marked."""

from collections.abc import Mapping

from mstarc.diagnostics.diagnostic import Edit, Fix
from mstarc.diagnostics.render.frame import cells, visible
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLine:
    """A line of the outcome: `|` with `~` or `+` marks under it, or `-` and `+` as in a diff."""

    number: int
    sign: str
    text: str
    marks: str = ""


def apply_edits(text: str, edits: tuple[Edit, ...]) -> str:
    """`text` with all `edits` made; they must not overlap."""
    for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def changed_lines(fix: Fix, sources: Mapping[str, SourceFile]) -> list[ChangedLine]:
    """The lines that `fix` changes, file by file, in order."""
    result: list[ChangedLine] = []
    for path in sorted({edit.span.path for edit in fix.edits}):
        if (source := sources.get(path)) is not None:
            edits = sorted(
                (edit for edit in fix.edits if edit.span.path == path),
                key=lambda edit: edit.span.start,
            )
            if all(_stays_in_its_line(source, edit) for edit in edits):
                result += _marked(source, edits)
            else:
                result += _diff(source, edits)
    return result


def _stays_in_its_line(source: SourceFile, edit: Edit) -> bool:
    start, end = source.position(edit.span.start), source.position(edit.span.end)
    return bool(edit.text) and "\n" not in edit.text and start.line == end.line


def _marked(source: SourceFile, edits: list[Edit]) -> list[ChangedLine]:
    by_line: dict[int, list[Edit]] = {}
    for edit in edits:
        by_line.setdefault(source.position(edit.span.start).line, []).append(edit)
    result = []
    for number, line_edits in by_line.items():
        offset = source.line_starts[number - 1]
        old = source.line_text(number)
        new, marks, at = "", "", 0
        for edit in line_edits:
            new += old[at : edit.span.start - offset]
            marks = marks.ljust(cells(visible(new)))
            new += edit.text
            sign = "+" if edit.span.start == edit.span.end else "~"
            marks += sign * cells(visible(edit.text))
            at = edit.span.end - offset
        result.append(
            ChangedLine(number=number, sign="|", text=visible(new + old[at:]), marks=marks)
        )
    return result


def _diff(source: SourceFile, edits: list[Edit]) -> list[ChangedLine]:
    """Whole lines taken away and put in their place, from the first edit to the last."""
    first = source.position(edits[0].span.start).line
    last = max(source.position(edit.span.end).line for edit in edits)
    begin = source.line_starts[first - 1]
    old = "\n".join(source.line_text(number) for number in range(first, last + 1))
    shifted = tuple(
        Edit(
            span=Span(
                path=edit.span.path, start=edit.span.start - begin, end=edit.span.end - begin
            ),
            text=edit.text,
        )
        for edit in edits
    )
    new = apply_edits(old, shifted)
    removed = [
        ChangedLine(number=first + index, sign="-", text=visible(line))
        for index, line in enumerate(old.split("\n"))
    ]
    added = [
        ChangedLine(number=first + index, sign="+", text=visible(line))
        for index, line in enumerate(new.split("\n"))
        if new
    ]
    return removed + added

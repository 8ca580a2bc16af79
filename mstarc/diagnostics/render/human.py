"""The format for authors: the headline, the source with marks, why, and what to do."""

import textwrap

from mstarc.diagnostics.diagnostic import Diagnostic, Fix, Label
from mstarc.diagnostics.render.colour import COLOURED, PLAIN, Palette
from mstarc.diagnostics.render.frame import MarkedLine, marked_lines, visible
from mstarc.diagnostics.render.patch import ChangedLine, changed_lines
from mstarc.diagnostics.report import Report
from mstarc.records import dataclass
from mstarc.source import SourceFile

WIDTH = 100
MOST_ERRORS = 20


def render_human(report: Report) -> str:
    """All findings, at most twenty errors, and one closing line; an empty text without findings."""
    if not report.diagnostics:
        return ""
    palette = COLOURED if report.colour else PLAIN
    shown, hidden_errors = _first_errors(report)
    parts = [_Writer(report, palette, diagnostic).write() for diagnostic in shown]
    if hidden_errors:
        noun = "error" if hidden_errors == 1 else "errors"
        parts.append(f"{palette.paint('error', palette.error)}: and {hidden_errors} more {noun}\n")
    parts.append(_closing_line(report, palette))
    return "\n".join(parts)


def _first_errors(report: Report) -> tuple[list[Diagnostic], int]:
    shown = []
    errors = 0
    for diagnostic in report.diagnostics:
        errors += (is_error := report.entry(diagnostic).severity == "error")
        if not is_error or errors <= MOST_ERRORS:
            shown.append(diagnostic)
    return shown, max(0, errors - MOST_ERRORS)


def _closing_line(report: Report, palette: Palette) -> str:
    errors, warnings = report.count("error"), report.count("warning")
    counts = f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
    if errors:
        return f"{palette.paint('error', palette.error)}: could not {report.attempt}: {counts}\n"
    return f"{palette.paint('warning', palette.warning)}: {counts}\n"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(slots=True)
class _Writer:
    """Writes one finding; `gutter` is the width of its largest line number."""

    report: Report
    palette: Palette
    diagnostic: Diagnostic
    gutter: int = 1

    def write(self) -> str:
        diagnostic, palette = self.diagnostic, self.palette
        severity = self.report.entry(diagnostic).severity
        kind = palette.paint(f"{severity}[{diagnostic.code}]", palette.severity(severity))
        message = palette.paint(f": {visible(diagnostic.message)}", palette.strong)
        groups = self._by_file()
        fixed = self._fixed(diagnostic.fix)
        numbers = [line.number for _, lines in groups for line in lines]
        numbers += [line.number for line in fixed]
        self.gutter = len(str(max(numbers, default=1)))
        rows = [
            f"{kind}{message}",
            *self._frames(groups),
            *self._facts("note", diagnostic.notes),
            *self._helps(fixed),
            *self._facts("more", (f"`mstarc explain {diagnostic.code}`",)),
        ]
        return "\n".join(row.rstrip() for row in rows) + "\n"

    def _by_file(self) -> list[tuple[str, list[MarkedLine]]]:
        """The marked lines of each file: the primary label's first, then in order of names."""
        primary = self.diagnostic.primary
        signed = [(primary, "^"), *((label, "-") for label in self.diagnostic.labels)]
        others = {label.span.path for label, _ in signed} - {primary.span.path}
        groups = []
        for path in [primary.span.path, *sorted(others)]:
            labels = tuple(pair for pair in signed if pair[0].span.path == path)
            source = self.report.sources.get(path)
            groups.append((path, [] if source is None else marked_lines(source, labels)))
        return groups

    def _frames(self, groups: list[tuple[str, list[MarkedLine]]]) -> list[str]:
        rows: list[str] = []
        for index, (path, lines) in enumerate(groups):
            if not path:
                continue
            arrow = "-->" if index == 0 else ":::"
            rows.append(f"{' ' * self.gutter}{self._frame_paint(arrow)} {self._place(path, index)}")
            if lines:
                rows += [self._bar(), *self._source_rows(path, lines), self._bar()]
        return rows

    def _place(self, path: str, index: int) -> str:
        label: Label = self.diagnostic.primary
        if index:
            label = next(label for label in self.diagnostic.labels if label.span.path == path)
        position = self.report.start(label.span)
        where = "" if position is None else f":{position.line}:{position.column}"
        return f"{visible(path)}{where}"

    def _source_rows(self, path: str, lines: list[MarkedLine]) -> list[str]:
        source = self.report.sources[path]
        rows: list[str] = []
        previous = lines[0].number
        for line in lines:
            rows += self._between(source, previous, line.number)
            rows.append(self._numbered(line.number, "|", line.text))
            rows += [f"{self._bar()} {self._mark_paint(row)}" for row in line.rows]
            previous = line.number
        return rows

    def _between(self, source: SourceFile, previous: int, number: int) -> list[str]:
        """What stands between two marked lines: nothing, the one line there is, or dots."""
        if number - previous <= 1:
            return []
        if number - previous == 2:
            text = visible(source.line_text(previous + 1).removesuffix("\r"))
            return [self._numbered(previous + 1, "|", text)]
        return [self._frame_paint("...")]

    def _facts(self, kind: str, texts: tuple[str, ...]) -> list[str]:
        rows: list[str] = []
        for text in texts:
            lead = f"{' ' * (self.gutter + 1)}{self._frame_paint('=')} "
            label = self.palette.paint(kind, self.palette.strong)
            indent = " " * (self.gutter + 5 + len(kind))
            lines = [
                piece
                for line in text.split("\n")
                for piece in (_wrap(visible(line), WIDTH - len(indent)) or [""])
            ]
            rows.append(f"{lead}{label}: {lines[0]}")
            rows += [f"{indent}{line}" for line in lines[1:]]
        return rows

    def _fixed(self, fix: Fix | None) -> list[ChangedLine]:
        return [] if fix is None else changed_lines(fix, self.report.sources)

    def _helps(self, fixed: list[ChangedLine]) -> list[str]:
        diagnostic = self.diagnostic
        helps = diagnostic.helps
        if diagnostic.fix is not None and not helps:
            helps = (diagnostic.fix.message,)
        rows = self._facts("help", helps)
        if fixed:
            rows.append(self._bar())
        for line in fixed:
            rows.append(self._numbered(line.number, line.sign, line.text))
            if line.marks:
                marks = self.palette.paint(line.marks, self.palette.remedy)
                rows.append(f"{self._bar()} {marks}")
        return rows

    def _numbered(self, number: int, sign: str, text: str) -> str:
        return f"{self._frame_paint(f'{number:>{self.gutter}} {sign}')} {text}"

    def _bar(self) -> str:
        return f"{' ' * (self.gutter + 1)}{self._frame_paint('|')}"

    def _frame_paint(self, text: str) -> str:
        return self.palette.paint(text, self.palette.frame)

    def _mark_paint(self, row: str) -> str:
        severity = self.report.entry(self.diagnostic).severity
        start = self.palette.severity(severity) if "^" in row else self.palette.frame
        return self.palette.paint(row, start)


def _wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width`; a line that fits, a table's, keeps its spaces."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)

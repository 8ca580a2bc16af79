"""Rows of a printed spec, with the author's comments and blank lines between them.

`printer` says what each row holds, and where in the source it ends; what stood before, inside and
behind it there follows: `##` texts in front, comments where they stood, one blank line where the
author left any.
"""

import re
from bisect import bisect_left

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.comments import attached_docs
from mstarc.syntax.layout import WIDTH, Row
from mstarc.syntax.tokens import Comment, read_tokens

STEP = 2
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


class RowWriter:
    """Collects `rows`; without a source there are no comments, and nothing stays on one line."""

    def __init__(self, spec: ast.Spec, source: SourceFile | None) -> None:
        self.spec = spec
        self.text = "" if source is None else source.text
        self.has_source = source is not None
        self.rows: list[Row] = []
        self.comments: list[Comment] = []
        self.next_comment = 0
        self.braces: list[int] = []
        self.doc_starts: dict[int, int] = {}
        self.indent = 0
        self.last_end = 0
        self.is_open = True
        if source is not None:
            self._collect_comments(source)

    def _collect_comments(self, source: SourceFile) -> None:
        read = read_tokens(source, DiagnosticSink())
        documented = {
            node.span.start
            for node in ast.descendants(self.spec)
            if getattr(node, "doc", None) is not None
        }
        docs = {start: c for start, c in attached_docs(read).items() if start in documented}
        self.braces = [token.start for token in read.tokens if token.text == "{"]
        self.doc_starts = {start: comments[0].start for start, comments in docs.items()}
        printed_as_docs = {comment.start for comments in docs.values() for comment in comments}
        self.comments = [c for c in read.comments if c.start not in printed_as_docs]

    def row(self, cells: tuple[str, ...], *, end: int, kind: str = "") -> None:
        """Add a row of what ends at `end` in the source."""
        self.rows.append(Row(indent=self.indent, cells=cells, kind=kind, continues=kind == "op"))
        self.last_end = max(end, self.last_end)
        self.is_open = False

    def _blank(self) -> None:
        if self.rows and (self.rows[-1].cells or self.rows[-1].comment):
            self.rows.append(Row(indent=0, cells=()))

    def _gap(self, start: int) -> None:
        """One blank line where the author left any."""
        if not self.is_open and _BLANK_LINE.search(self.text, self.last_end, start):
            self._blank()

    def declaration_gap(self, *, was_long: bool, start: int) -> None:
        """What stands before a declaration; without a source, or after a long one, a blank line."""
        if was_long or not self.has_source:
            self._trailing_comments(start)
            self._blank()
        self.before(start)

    def _trailing_comments(self, start: int) -> None:
        while self.next_comment < len(self.comments):
            comment = self.comments[self.next_comment]
            if comment.start >= start or comment.own_line or not self._attach(comment):
                return

    def _attach(self, comment: Comment) -> bool:
        """Put a comment at the end of the last row, if that has none."""
        if not self.rows or self.rows[-1].comment or not self.rows[-1].cells:
            return False
        self.rows[-1].comment = comment.text
        self.last_end = max(self.last_end, comment.end)
        self.next_comment += 1
        return True

    def before(self, start: int) -> None:
        """The comments up to `start`, and the blank line before it."""
        while self.next_comment < len(self.comments):
            comment = self.comments[self.next_comment]
            if comment.start >= start:
                break
            if not comment.own_line and self._attach(comment):
                continue
            self._gap(comment.start)
            self.rows.append(Row(indent=self.indent, cells=(), comment=self._own_line(comment)))
            self.last_end = max(self.last_end, comment.end)
            self.is_open = False
            self.next_comment += 1
        if start <= len(self.text):
            self._gap(start)

    def _own_line(self, comment: Comment) -> str:
        """A comment as a line; one that stood elsewhere must not become documentation."""
        text = comment.text
        if not comment.own_line or comment.start < self.last_end:
            text = "#" + text.lstrip("#")
        return self._margin(text)

    def _margin(self, text: str) -> str:
        return " " * self.indent + text

    def begin(self, node: ast.Node) -> None:
        """What stands before a node: comments, a blank line, its own text."""
        self.before(self.start_of(node))
        self.write_doc(node)

    def write_doc(self, node: ast.Node) -> None:
        """The `##` text of a node, which stands above it."""
        doc = getattr(node, "doc", None)
        if doc is None:
            return
        for line in doc.split("\n"):
            text = self._margin(f"## {line}".rstrip())
            self.rows.append(Row(indent=self.indent, cells=(), comment=text))
        self.is_open = False

    def start_of(self, node: ast.Node) -> int:
        """Where a node begins, with the `##` text above it."""
        return self.doc_starts.get(node.span.start, node.span.start)

    def inner_comments(self, node: ast.Node) -> None:
        """Comments inside something that becomes one row: the first may end it, others precede."""
        index = self.next_comment
        while index < len(self.comments) and self.comments[index].start < node.span.end:
            comment = self.comments[index]
            if not comment.own_line:
                break
            text = self._margin("#" + comment.text.lstrip("#"))
            self.rows.append(Row(indent=self.indent, cells=(), comment=text))
            index += 1
        self.next_comment = index

    def one_row(self, node: ast.Node, cells: tuple[str, ...], kind: str = "") -> None:
        """Add a node that is one row, and what stands before it."""
        self.before(self.start_of(node))
        self.inner_comments(node)
        self.write_doc(node)
        self.row(cells, end=node.span.end, kind=kind)

    def is_flat(self, node: ast.Node, text: str) -> bool:
        """Whether the author wrote `node` on one line, it fits, and nothing has to stand in it."""
        if not self.has_source or self.indent + len(text) > WIDTH:
            return False
        if "\n" in self.text[node.span.start : node.span.end]:
            return False
        return not any(
            getattr(inner, "doc", None) is not None and inner is not node
            for inner in ast.descendants(node)
        )

    def close(self, end: int, text: str = "}") -> None:
        """The last comments of a block, and what closes it, at `end`."""
        self.is_open = True
        self.indent += STEP
        self._before_close(end)
        self.indent -= STEP
        self.row((text,), end=end)

    def _before_close(self, end: int) -> None:
        self.is_open = False
        while self.next_comment < len(self.comments):
            comment = self.comments[self.next_comment]
            if comment.start >= end:
                return
            if not comment.own_line and self._attach(comment):
                continue
            self._gap(comment.start)
            self.rows.append(Row(indent=self.indent, cells=(), comment=self._own_line(comment)))
            self.last_end = max(self.last_end, comment.end)
            self.next_comment += 1

    def open(self, header: str, start: int) -> None:
        """A header and its brace, the first one from `start` on."""
        brace = bisect_left(self.braces, start)
        end = self.braces[brace] + 1 if brace < len(self.braces) else start
        self.row((f"{header} {{",), end=end)
        self.is_open = True
        self.indent += STEP

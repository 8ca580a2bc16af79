"""Write a syntax tree in the one canonical form, comments kept.

The author's lines are kept where that is a choice of meaning: a block that stands on one line
stays there if it fits and holds no comment, and single blank lines stay. All else follows from
the tree: indentation, spaces, columns (`layout`), parentheses (`print_exprs`).
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import assert_never

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.comments import attached_docs
from mstarc.syntax.layout import WIDTH, Row, lay_out
from mstarc.syntax.print_exprs import expr_text, str_text
from mstarc.syntax.print_lines import (
    arm_header,
    arm_text,
    assign_cells,
    block_header,
    block_text,
    config_item_cells,
    decl_text,
    field_cells,
    header_text,
    is_bare_run,
    let_cells,
    node_item_text,
    op_cells,
    settings_header,
    stmt_text,
    until_text,
)
from mstarc.syntax.tokens import Comment, read_tokens

STEP = 2
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


def print_spec(spec: ast.Spec, source: SourceFile | None = None) -> str:
    """The text of a spec. `source` is what it was parsed from: its comments and lines are kept.

    The tree must be whole: of a text with mistakes, what could not be read would be lost.
    """
    return _Printer(spec, source).print()


class _Printer:
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

    def print(self) -> str:
        spec = self.spec
        start = spec.span.start
        self._before(start)
        version = f"mstar {spec.version}"
        self._row((version,), end=start + len(version))
        self._declaration_gap(was_long=True, start=self._start(spec.model))
        self._model(spec.model)
        was_long = False
        for number, decl in enumerate(spec.declarations):
            rows_before = len(self.rows)
            start = self._start(decl)
            is_long = not self._is_flat(decl, decl_text(decl)) and _has_block(decl)
            self._declaration_gap(was_long=was_long or is_long or number == 0, start=start)
            if not _has_block(decl):
                self._inner_comments(decl)
            self._doc(decl)
            self._declaration(decl)
            was_long = is_long or len(self.rows) - rows_before > 2 + _doc_lines(decl)
        self._before(len(self.text) + 1)
        while self.rows and not self.rows[-1].cells and not self.rows[-1].comment:
            self.rows.pop()
        return lay_out(self.rows)

    # Rows, blank lines and comments.

    def _row(self, cells: tuple[str, ...], *, end: int, kind: str = "") -> None:
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

    def _declaration_gap(self, *, was_long: bool, start: int) -> None:
        if was_long or not self.has_source:
            self._trailing_comments(start)
            self._blank()
        self._before(start)

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

    def _before(self, start: int) -> None:
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

    def _begin(self, node: ast.Node) -> None:
        """What stands before a node: comments, a blank line, its own text."""
        self._before(self._start(node))
        self._doc(node)

    def _doc(self, node: ast.Node) -> None:
        doc = getattr(node, "doc", None)
        if doc is None:
            return
        for line in doc.split("\n"):
            text = self._margin(f"## {line}".rstrip())
            self.rows.append(Row(indent=self.indent, cells=(), comment=text))
        self.is_open = False

    def _start(self, node: ast.Node) -> int:
        return self.doc_starts.get(node.span.start, node.span.start)

    def _inner_comments(self, node: ast.Node) -> None:
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

    def _one_row(self, node: ast.Node, cells: tuple[str, ...], kind: str = "") -> None:
        self._before(self._start(node))
        self._inner_comments(node)
        self._doc(node)
        self._row(cells, end=node.span.end, kind=kind)

    def _is_flat(self, node: ast.Node, text: str) -> bool:
        """Whether the author wrote `node` on one line, it fits, and nothing has to stand in it."""
        if not self.has_source or self.indent + len(text) > WIDTH:
            return False
        if "\n" in self.text[node.span.start : node.span.end]:
            return False
        return not any(
            getattr(inner, "doc", None) is not None and inner is not node
            for inner in ast.descendants(node)
        )

    def _close(self, end: int, text: str = "}") -> None:
        """The last comments of a block, and what closes it, at `end`."""
        self.is_open = True
        self.indent += STEP
        self._before_close(end)
        self.indent -= STEP
        self._row((text,), end=end)

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

    def _open(self, header: str, start: int) -> None:
        """A header and its brace, the first one from `start` on."""
        brace = bisect_left(self.braces, start)
        end = self.braces[brace] + 1 if brace < len(self.braces) else start
        self._row((f"{header} {{",), end=end)
        self.is_open = True
        self.indent += STEP

    # Declarations.

    def _model(self, model: ast.ModelDecl) -> None:
        source = "" if model.source is None else f" from {str_text(model.source)}"
        self._one_row(model, (f"model {model.name.text}{source}",))

    def _declaration(self, decl: ast.Decl) -> None:
        text = decl_text(decl)
        kind = ""
        match decl:
            case ast.Let():
                self._row(let_cells(decl), end=decl.span.end, kind="let")
                return
            case (
                ast.VariantDecl()
                | ast.NeedDecl()
                | ast.TableDecl()
                | ast.FoldedDecl()
                | ast.StreamDecl()
            ):
                self._row((text,), end=decl.span.end, kind=kind)
                return
        if self._is_flat(decl, text):
            self._row((text,), end=decl.span.end)
            return
        match decl:
            case ast.ConfigDecl():
                self._open("config", decl.span.start)
                for item in decl.items:
                    self._one_row(item, config_item_cells(item), "config")
            case ast.RequestDecl():
                self._open("request", decl.span.start)
                for field in decl.fields:
                    self._one_row(field, field_cells(field), "field")
            case ast.NodeDecl():
                self._open(header_text(decl), decl.span.start)
                for node_item in decl.items:
                    self._node_item(node_item)
            case ast.WalkDecl():
                self._open(header_text(decl), decl.span.start)
                self._statements(decl.body.statements)
            case ast.MachineDecl():
                self._open(header_text(decl), decl.span.start)
                for state in decl.states:
                    self._state(state)
            case _:
                assert_never(decl)
        self.indent -= STEP
        self._close(decl.span.end)

    def _node_item(self, item: ast.NodeItem) -> None:
        match item:
            case ast.OpDecl():
                self._one_row(item, op_cells(item), "op")
            case ast.KvItem() | ast.SampleItem():
                self._settings(item)
            case _:
                self._one_row(item, (node_item_text(item),))

    def _settings(self, item: ast.KvItem | ast.SampleItem) -> None:
        text = node_item_text(item)
        self._begin(item)
        if not item.settings or not self.has_source or self._is_flat(item, text):
            self._inner_comments(item)
            self._row((text,), end=item.span.end)
            return
        self._open(settings_header(item), item.span.start)
        for setting in item.settings:
            comma = "" if setting is item.settings[-1] else ","
            value = f"= {expr_text(setting.value)}{comma}"
            self._one_row(setting, (setting.name.text, value), "setting")
        self.indent -= STEP
        self._close(item.span.end)

    def _state(self, state: ast.StateDecl) -> None:
        self._begin(state)
        header = header_text(state)
        text = block_text(header, state.body)
        if self._is_flat(state, text):
            self._row((header, text.removeprefix(f"{header} ")), end=state.span.end, kind="state")
            return
        self._block(header, state.body)
        self._close(state.span.end)

    # Statements.

    def _block(self, header: str, block: ast.Block) -> None:
        self._open(header, block.span.start)
        self._statements(block.statements)
        self.indent -= STEP

    def _statements(self, statements: Sequence[ast.Stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.Stmt) -> None:
        match node:
            case ast.Assign():
                kind = "assign" if len(node.targets) == 1 else ""
                self._one_row(node, assign_cells(node), kind)
                return
            case ast.Let():
                self._one_row(node, let_cells(node), "let")
                return
        text = stmt_text(node)
        is_flat = isinstance(node, ast.Each) and is_bare_run(node.body)
        if not _has_block(node) or is_flat or self._is_flat(node, text):
            self._one_row(node, (text,))
            return
        self._begin(node)
        match node:
            case ast.Loop() | ast.Parallel() | ast.For() | ast.Each():
                self._block(block_header(node), node.body)
                after = until_text(node) if isinstance(node, ast.Loop) else ""
                self._close(node.body.span.end, "}" + after)
                self.last_end = max(self.last_end, node.span.end)
            case ast.Match():
                self._open(f"match {node.subject.text}", node.span.start)
                for arm in node.arms:
                    self._arm(arm)
                self.indent -= STEP
                self._close(node.span.end)
            case ast.When():
                self._when(node)
            case _:
                raise AssertionError(node)

    def _arm(self, arm: ast.Arm) -> None:
        self._begin(arm)
        header, text = arm_header(arm), arm_text(arm)
        if self._is_flat(arm, text):
            self._row((header, text.removeprefix(f"{header} ")), end=arm.span.end, kind="arm")
            return
        self._block(header, arm.body)
        self._close(arm.span.end)

    def _when(self, node: ast.When) -> None:
        self._block(f"when {expr_text(node.condition)}", node.then)
        branch = node
        while isinstance(branch.otherwise, ast.When):
            self._close(branch.then.span.end, "")
            self.rows.pop()
            branch = branch.otherwise
            self._block(f"}} else when {expr_text(branch.condition)}", branch.then)
        if branch.otherwise is None:
            self._close(branch.then.span.end)
            return
        self._close(branch.then.span.end, "")
        self.rows.pop()
        self._block("} else", branch.otherwise)
        self._close(branch.otherwise.span.end)


def _has_block(node: ast.Node) -> bool:
    return isinstance(
        node,
        ast.ConfigDecl
        | ast.RequestDecl
        | ast.NodeDecl
        | ast.WalkDecl
        | ast.MachineDecl
        | ast.Loop
        | ast.Parallel
        | ast.For
        | ast.Each
        | ast.Match
        | ast.When,
    )


def _doc_lines(node: ast.Node) -> int:
    doc = getattr(node, "doc", None)
    return 0 if doc is None else doc.count("\n") + 1

"""Write a syntax tree in the one canonical form, comments kept.

The author's lines are kept where that is a choice of meaning: a block that stands on one line
stays there if it fits and holds no comment, and single blank lines stay. All else follows from
the tree: indentation, spaces, columns (`layout`), parentheses (`print_exprs`). `print_rows` keeps
the comments.
"""

from collections.abc import Sequence
from typing import assert_never

from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.layout import lay_out
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
    setting_value_text,
    settings_header,
    stmt_text,
    until_text,
)
from mstarc.syntax.print_rows import STEP, RowWriter


def print_spec(spec: ast.Spec, source: SourceFile | None = None) -> str:
    """The text of a spec. `source` is what it was parsed from: its comments and lines are kept.

    The tree must be whole: of a text with mistakes, what could not be read would be lost.
    """
    return _Printer(spec, source).print()


class _Printer(RowWriter):
    def print(self) -> str:
        spec = self.spec
        start = spec.span.start
        self.before(start)
        version = f"mstar {spec.version}"
        self.row((version,), end=start + len(version))
        self.declaration_gap(was_long=True, start=self.start_of(spec.model))
        self._model(spec.model)
        was_long = False
        for number, decl in enumerate(spec.declarations):
            rows_before = len(self.rows)
            start = self.start_of(decl)
            is_long = not self.is_flat(decl, decl_text(decl)) and _has_block(decl)
            self.declaration_gap(was_long=was_long or is_long or number == 0, start=start)
            if not _has_block(decl):
                self.inner_comments(decl)
            self.write_doc(decl)
            self._declaration(decl)
            was_long = is_long or len(self.rows) - rows_before > 2 + _doc_lines(decl)
        self.before(len(self.text) + 1)
        while self.rows and not self.rows[-1].cells and not self.rows[-1].comment:
            self.rows.pop()
        return lay_out(self.rows)

    def _model(self, model: ast.ModelDecl) -> None:
        source = "" if model.source is None else f" from {str_text(model.source)}"
        self.one_row(model, (f"model {model.name.text}{source}",))

    def _declaration(self, decl: ast.Decl) -> None:
        text = decl_text(decl)
        kind = ""
        match decl:
            case ast.Let():
                self.row(let_cells(decl), end=decl.span.end, kind="let")
                return
            case (
                ast.VariantDecl()
                | ast.NeedDecl()
                | ast.TableDecl()
                | ast.FoldedDecl()
                | ast.StreamDecl()
            ):
                self.row((text,), end=decl.span.end, kind=kind)
                return
        if self.is_flat(decl, text):
            self.row((text,), end=decl.span.end)
            return
        match decl:
            case ast.ConfigDecl():
                self.open("config", decl.span.start)
                for item in decl.items:
                    self.one_row(item, config_item_cells(item), "config")
            case ast.RequestDecl():
                self.open("request", decl.span.start)
                for field in decl.fields:
                    self.one_row(field, field_cells(field), "field")
            case ast.NodeDecl():
                self.open(header_text(decl), decl.span.start)
                for node_item in decl.items:
                    self._node_item(node_item)
            case ast.WalkDecl():
                self.open(header_text(decl), decl.span.start)
                self._statements(decl.body.statements)
            case ast.MachineDecl():
                self.open(header_text(decl), decl.span.start)
                for state in decl.states:
                    self._state(state)
            case _:
                assert_never(decl)
        self.indent -= STEP
        self.close(decl.span.end)

    def _node_item(self, item: ast.NodeItem) -> None:
        match item:
            case ast.OpDecl():
                self.one_row(item, op_cells(item), "op")
            case ast.KvItem() | ast.SampleItem():
                self._settings(item)
            case _:
                self.one_row(item, (node_item_text(item),))

    def _settings(self, item: ast.KvItem | ast.SampleItem) -> None:
        text = node_item_text(item)
        self.begin(item)
        if not item.settings or not self.has_source or self.is_flat(item, text):
            self.inner_comments(item)
            self.row((text,), end=item.span.end)
            return
        self.open(settings_header(item), item.span.start)
        for setting in item.settings:
            comma = "" if setting is item.settings[-1] else ","
            value = f"= {setting_value_text(setting)}{comma}"
            self.one_row(setting, (setting.name.text, value), "setting")
        self.indent -= STEP
        self.close(item.span.end)

    def _state(self, state: ast.StateDecl) -> None:
        self.begin(state)
        header = header_text(state)
        text = block_text(header, state.body)
        if self.is_flat(state, text):
            self.row((header, text.removeprefix(f"{header} ")), end=state.span.end, kind="state")
            return
        self._block(header, state.body)
        self.close(state.span.end)

    # Statements.

    def _block(self, header: str, block: ast.Block) -> None:
        self.open(header, block.span.start)
        self._statements(block.statements)
        self.indent -= STEP

    def _statements(self, statements: Sequence[ast.Stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.Stmt) -> None:
        match node:
            case ast.Assign():
                kind = "assign" if len(node.targets) == 1 else ""
                self.one_row(node, assign_cells(node), kind)
                return
            case ast.Let():
                self.one_row(node, let_cells(node), "let")
                return
        text = stmt_text(node)
        is_flat = isinstance(node, ast.Each) and is_bare_run(node.body)
        if not _has_block(node) or is_flat or self.is_flat(node, text):
            self.one_row(node, (text,))
            return
        self.begin(node)
        match node:
            case ast.Loop() | ast.Parallel() | ast.For() | ast.Each():
                self._block(block_header(node), node.body)
                after = until_text(node) if isinstance(node, ast.Loop) else ""
                self.close(node.body.span.end, "}" + after)
                self.last_end = max(self.last_end, node.span.end)
            case ast.Match():
                self.open(f"match {node.subject.text}", node.span.start)
                for arm in node.arms:
                    self._arm(arm)
                self.indent -= STEP
                self.close(node.span.end)
            case ast.When():
                self._when(node)
            case _:
                raise AssertionError(node)

    def _arm(self, arm: ast.Arm) -> None:
        self.begin(arm)
        header, text = arm_header(arm), arm_text(arm)
        if self.is_flat(arm, text):
            self.row((header, text.removeprefix(f"{header} ")), end=arm.span.end, kind="arm")
            return
        self._block(header, arm.body)
        self.close(arm.span.end)

    def _when(self, node: ast.When) -> None:
        self._block(f"when {expr_text(node.condition)}", node.then)
        branch = node
        while isinstance(branch.otherwise, ast.When):
            self.close(branch.then.span.end, "")
            self.rows.pop()
            branch = branch.otherwise
            self._block(f"}} else when {expr_text(branch.condition)}", branch.then)
        if branch.otherwise is None:
            self.close(branch.then.span.end)
            return
        self.close(branch.then.span.end, "")
        self.rows.pop()
        self._block("} else", branch.otherwise)
        self.close(branch.otherwise.span.end)


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

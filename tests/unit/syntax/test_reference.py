"""The examples of the language reference are specs, or parts of one, in the canonical form."""

from pathlib import Path

import pytest

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.parser import parse
from mstarc.syntax.printer import print_spec
from tests.support.markdown import Block, blocks

PAGE = Path(__file__).parents[3] / "docs" / "language.md"
EXAMPLES = [
    block for block in blocks(PAGE.read_text(encoding="utf-8")) if block.language == "mstar"
]
HEAD = "mstar 1\n\nmodel example\n\n"


def whole(block: Block) -> str:
    match block.settings.get("part"):
        case None:
            return block.text
        case "top":
            return HEAD + block.text
        case "walk":
            inner = "".join(f"  {line}\n" for line in block.text.splitlines())
            return f"{HEAD}walk w(first: i64) {{\n{inner}}}\n"
        case part:
            raise AssertionError(part)


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: f"line{block.first_line}")
def test_example_is_in_the_canonical_form(block: Block) -> None:
    source = SourceFile(path="spec.mstar", text=whole(block))
    sink = DiagnosticSink()
    spec = parse(source, sink)
    assert spec is not None
    assert not sink.diagnostics
    assert print_spec(spec, source) == source.text


def test_examples_show_every_kind_of_node_of_the_tree() -> None:
    shown: set[type[ast.Node]] = set()
    for block in EXAMPLES:
        spec = parse(SourceFile(path="spec.mstar", text=whole(block)), DiagnosticSink())
        assert spec is not None
        shown |= {type(node) for node in ast.descendants(spec)}
    kinds = {
        kind
        for name in ast.__all__
        if isinstance(kind := getattr(ast, name), type) and issubclass(kind, ast.Node)
    }
    assert {kind.__name__ for kind in kinds - shown - {ast.Node}} == set()

"""The grammar, its shipped tables, the tree and the builder know the same forms."""

import dataclasses
import inspect

import pytest

from mstarc.diagnostics import DiagnosticSink
from mstarc.resources import grammar_folder
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.build import TreeBuilder
from mstarc.syntax.tables import TABLES_FILE, load_tables, tables_text
from tests.support.golden import ROOT

SYNTAX = ROOT / "mstarc" / "syntax"
NODES = sorted(
    name
    for name, value in vars(ast).items()
    if inspect.isclass(value) and dataclasses.is_dataclass(value) and issubclass(value, ast.Node)
)


def test_shipped_tables_are_those_of_the_grammar() -> None:
    grammar = (grammar_folder() / "mstar.lark").read_text(encoding="utf-8")
    made = tables_text(grammar)
    assert TABLES_FILE.read_text(encoding="utf-8") == made, "run python -m mstarc.syntax.tables"


def test_every_rule_has_a_method_that_builds_it() -> None:
    builder = TreeBuilder(SourceFile(path="s.mstar", text=""), {}, DiagnosticSink())
    for rule in load_tables().rules:
        if not rule.origin.startswith("_") and not rule.passes_single:
            assert callable(builder.callback(rule.callback))


@pytest.mark.parametrize("name", [name for name in NODES if name != "Node"])
def test_every_form_of_the_tree_comes_from_the_grammar(name: str) -> None:
    """That each is printed, too, is what the round trip and `assert_never` are for."""
    sources = "\n".join(path.read_text() for path in sorted(SYNTAX.glob("*.py")))
    assert f"ast.{name}(" in sources

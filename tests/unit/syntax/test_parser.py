"""Text to tree: places, documentation, and the table that the parser runs on."""

from importlib.util import find_spec

import pytest

from mstarc.diagnostics import DiagnosticSink
from mstarc.resources import grammar_folder, specs_folder
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

GRAMMAR = (grammar_folder() / "mstar.lark").read_text(encoding="utf-8")

TEXT = """\
mstar 1

## What it does.
##
## In two parts.
model m from "org/m"

config {
  ## How many.
  layers : int = 28 from "num_layers"
}

# not documentation
walk w(a: i64) -> (b: i64 if last) {
  loop max layers as i carry x = a collect all = x while x != 3 {
    x, _ = lm.step(x, depth = i) on main
  }
}
"""


def tree(text: str) -> ast.Spec:
    sink = DiagnosticSink()
    spec = parse(SourceFile(path="spec.mstar", text=text), sink)
    assert not sink.diagnostics
    assert spec is not None
    return spec


def test_lark_accepts_what_the_parser_accepts() -> None:
    from lark import Lark

    lark = Lark(GRAMMAR, parser="lalr", strict=find_spec("interegular") is not None)
    for path in sorted(specs_folder().glob("*.mstar")):
        lark.parse(path.read_text(encoding="utf-8"))


def test_spans_cover_what_was_read() -> None:
    spec = tree(TEXT)
    source = SourceFile(path="spec.mstar", text=TEXT)
    assert source.slice(spec.model.span) == 'model m from "org/m"'
    (item,) = spec.config_items
    assert source.slice(item.span) == 'layers : int = 28 from "num_layers"'
    assert source.slice(item.name.span) == "layers"
    (walk,) = spec.all_of(ast.WalkDecl)
    assert source.slice(walk.results[0].span) == "b: i64 if last"
    loop = walk.body.statements[0]
    assert isinstance(loop, ast.Loop)
    assert source.slice(loop.bound.span) == "max layers"
    assert source.slice(loop.collects[0].span) == "all = x"
    (assign,) = loop.body.statements
    assert isinstance(assign, ast.Assign)
    assert [type(target) for target in assign.targets] == [ast.Name, ast.Discard]
    assert isinstance(assign.value, ast.OpCall)
    assert source.slice(assign.value.target.span) == "lm.step"
    assert assign.value.context is not None
    assert source.slice(assign.value.span) == "lm.step(x, depth = i) on main"


def test_doc_comments_belong_to_the_next_declaration() -> None:
    spec = tree(TEXT)
    assert spec.model.doc == "What it does.\n\nIn two parts."
    assert spec.config_items[0].doc == "How many."
    assert spec.all_of(ast.WalkDecl)[0].doc is None


def test_missing_lists_are_empty() -> None:
    spec = tree("mstar 1\nmodel m\nnode n : host { op f() -> () }\n")
    (op,) = spec.all_of(ast.NodeDecl)[0].ops
    assert (op.params, op.results, op.effects) == ((), (), ())


def test_a_spec_without_declarations_has_places() -> None:
    spec = tree("mstar 1 model m")
    assert spec.declarations == ()
    assert (spec.span.start, spec.span.end) == (0, 15)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("opt a : int\n  in b : text", (ast.OptField, ast.InField)),
        ("opt a : int in 1 .. 3\n  in b : text", (ast.OptField, ast.InField)),
        ("opt a : int in # comment\n  -1 .. 3", (ast.OptField,)),
        ('opt a : str = "x" in ["x"]', (ast.OptField,)),
    ],
)
def test_a_domain_is_told_from_the_next_input(text: str, kind: tuple[type[ast.Node], ...]) -> None:
    fields = tree(f"mstar 1\nmodel m\nrequest {{ {text} }}").request_fields
    assert tuple(type(field) for field in fields) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [("[int]", ast.ListType), ("[text]", ast.PartsType), ("[text | image]", ast.PartsType)],
)
def test_brackets_hold_a_list_of_values_or_kinds_of_parts(
    text: str, expected: type[ast.Node]
) -> None:
    (item,) = tree(f"mstar 1\nmodel m\nconfig {{ a : {text} }}").config_items
    assert isinstance(item.type, expected)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a or b and not c", "a or (b and (not c))"),
        ("not a == b", "not (a == b)"),
        ("-a * b", "(-a) * b"),
        ("a in b or wants c", "(a in b) or (wants c)"),
        ("a / b * c % d // e", "(((a / b) * c) % d) // e"),
    ],
)
def test_operators_bind_as_written_with_parentheses(text: str, grouped: str) -> None:
    plain = tree(f"mstar 1\nmodel m\nlet x = {text}")
    explicit = tree(f"mstar 1\nmodel m\nlet x = {grouped}")
    assert ast.same_tree(plain, explicit)


def test_each_may_run_one_walk_without_braces() -> None:
    text = "mstar 1\nmodel m\nmachine a {{ state s {{ each b as c {} next done }} }}"
    bare = tree(text.format("run w(c)"))
    assert ast.same_tree(bare, tree(text.format("{ run w(c) }")))

"""Uses lead to declarations, for the checker and for editors."""

from pathlib import Path

import pytest

from mstarc.diagnostics import DiagnosticSink
from mstarc.names import Resolved, resolve
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

SPECS = sorted((Path(__file__).parents[3] / "specs").glob("*.mstar"))


def resolved(path: Path) -> Resolved:
    source = SourceFile(path=path.name, text=path.read_text(encoding="utf-8"))
    sink = DiagnosticSink()
    spec = parse(source, sink)
    assert spec is not None
    found = resolve(spec, sink)
    assert not sink.diagnostics
    return found


def lookup(found: Resolved, text: str, nth: int) -> str:
    """The kind of what the nth use of a name means."""
    uses = [name for name in found.uses if name.text == text]
    uses.sort(key=lambda name: name.span.start)
    return found.uses[uses[nth]].kind


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_use_means_a_symbol_of_its_name(path: Path) -> None:
    found = resolved(path)
    for name, symbol in found.uses.items():
        assert symbol.name == name.text
        assert symbol.declaration.text == name.text


def test_a_value_is_declared_where_it_is_first_set() -> None:
    found = resolved(next(path for path in SPECS if path.stem == "orpheus"))
    walk = found.symbols.walks["decode"].of(ast.WalkDecl)
    tokens = [n for n in ast.descendants(walk) if isinstance(n, ast.Name) and n.text == "token"]
    symbols = {found.uses[name] for name in tokens}
    assert len(symbols) == 1
    assert symbols.pop().declaration is tokens[0]


def test_one_name_means_different_things_in_different_places() -> None:
    found = resolved(next(path for path in SPECS if path.stem == "orpheus"))
    kinds = {symbol.kind for name, symbol in found.uses.items() if name.text == "voice"}
    assert kinds == {"parameter", "option"} or kinds == {"option", "parameter"}


def test_a_bad_name_has_no_meaning() -> None:
    source = SourceFile(path="s", text="mstar 1\nmodel m\nlet a = b + c\nlet c = 1\n")
    sink = DiagnosticSink()
    spec = parse(source, sink)
    assert spec is not None
    found = resolve(spec, sink)
    assert [diagnostic.code for diagnostic in sink.diagnostics] == ["MS0207"]
    assert {name.text for name in found.uses} == {"c"}


def test_an_unknown_name_among_many_lists_the_first_and_how_many_more() -> None:
    sink = DiagnosticSink()
    text = "mstar 1\nmodel demo\nwalk go() { zzz.step() }\n"
    text += "".join(f'node n{letter} : host {{ impl "m:N" op a() }}\n' for letter in "abcdefghij")
    spec = parse(SourceFile(path="demo.mstar", text=text), sink)
    assert spec is not None
    resolve(spec, sink)
    listed = ", ".join(f"`n{letter}`" for letter in "abcdefgh")
    assert sink.diagnostics[0].helps == (f"what there is: {listed} and 2 more",)

"""A text that is parsed again after a change has the tree that it has as a whole."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.diagnostics import DiagnosticSink
from mstarc.lsp.pieces import PieceParser
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.parser import parse
from tests.support.golden import ROOT
from tests.support.long_spec import long_spec

SPECS = sorted((ROOT / "specs").glob("*.mstar"))
TEXT = (ROOT / "specs/voice_chat.mstar").read_text(encoding="utf-8")


def spans(tree: ast.Spec) -> list[tuple[str, int, int]]:
    return [(type(n).__name__, n.span.start, n.span.end) for n in ast.descendants(tree)]


def docs(tree: ast.Spec) -> list[object]:
    return [getattr(node, "doc", None) for node in ast.descendants(tree)]


def check_same(parser: PieceParser, text: str) -> None:
    source = SourceFile(path="x", text=text)
    whole, sink = DiagnosticSink(), DiagnosticSink()
    expected, found = parse(source, whole), parser.parse(source, sink)
    if whole.diagnostics:
        # What is said of a mistake may differ; that there is one may not.
        assert sink.diagnostics
        for finding in sink.diagnostics:
            assert 0 <= finding.primary.span.start <= finding.primary.span.end <= len(text)
        return
    assert not sink.diagnostics
    assert expected is not None
    assert found is not None
    assert ast.same_tree(expected, found)
    assert spans(expected) == spans(found)
    assert docs(expected) == docs(found)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_shipped_spec(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parser = PieceParser()
    check_same(parser, text)
    check_same(parser, text.replace("\n\n", "\n\n# π moves what follows\n\n", 1))
    check_same(parser, text.replace("walk ", "## A doc.\nwalk ", 1))
    check_same(parser, text)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_edits(data: st.DataObject) -> None:
    parser, text = PieceParser(), TEXT
    for _ in range(4):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        new = data.draw(st.sampled_from(("", "x", " ", "\n", "{", "}", '"', "# ", "\nwalk ", "=")))
        text = text[:start] + new + text[end:]
        check_same(parser, text)


def test_only_what_changed_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = long_spec(600)
    parser = PieceParser()
    parser.parse(SourceFile(path="x", text=text), DiagnosticSink())
    read: list[int] = []

    def counting(source: SourceFile, sink: DiagnosticSink) -> ast.Spec | None:
        read.append(len(source.text))
        return parse(source, sink)

    monkeypatch.setattr("mstarc.lsp.pieces.parse", counting)
    changed = text.replace("token = think_2.step(token)", "token =  think_2.step(token)")
    parser.parse(SourceFile(path="x", text=changed), DiagnosticSink())
    # The head, and one walk.
    assert len(read) == 2
    assert sum(read) < 1500


def test_two_pieces_of_one_text_have_their_own_places() -> None:
    walk = "walk a() { x = 1 }\n"
    check_same(PieceParser(), f"mstar 1\nmodel m\n{walk}{walk}")
    parser = PieceParser()
    for _ in range(3):
        for text in (f"{walk}{walk}", f"# moved\n{walk}let b = 1\n{walk}", walk):
            check_same(parser, f"mstar 1\nmodel m\n{text}")


def test_a_mistake_says_what_stands_behind_it() -> None:
    text = "mstar 1\nmodel m\nwalk a() {\n  x = \n}\nwalk b() { }\n"
    whole, sink = DiagnosticSink(), DiagnosticSink()
    parse(SourceFile(path="x", text=text), whole)
    PieceParser().parse(SourceFile(path="x", text=text), sink)
    assert sink.diagnostics == whole.diagnostics

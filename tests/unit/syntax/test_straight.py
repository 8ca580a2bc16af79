"""The quick way and the careful way through a text give one tree and one list of findings."""

from pathlib import Path
from random import Random

import pytest

from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax import ast, parser

ROOT = Path(__file__).parents[3]
SPECS = sorted((ROOT / "specs").glob("*.mstar"))


def _parsed(text: str) -> tuple[ast.Spec | None, tuple[Diagnostic, ...]]:
    sink = DiagnosticSink()
    return parser.parse(SourceFile(path="spec.mstar", text=text), sink), sink.diagnostics


def _check_both_ways(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, quick_findings = _parsed(text)
    with monkeypatch.context() as patched:
        patched.setattr(parser, "parse_straight", lambda *_: None)
        careful, careful_findings = _parsed(text)
    assert quick_findings == careful_findings
    assert (quick is None) == (careful is None)
    if quick is None or careful is None:
        return
    assert ast.same_tree(quick, careful)
    spans = [[node.span for node in ast.descendants(tree)] for tree in (quick, careful)]
    assert spans[0] == spans[1]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_both_ways_through_a_spec_agree(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check_both_ways(path.read_text(encoding="utf-8"), monkeypatch)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_both_ways_through_a_broken_spec_agree(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    chance = Random(path.stem)
    for _ in range(8):
        at = chance.randrange(len(text))
        _check_both_ways(text[:at] + text[at + chance.randrange(1, 5) :], monkeypatch)


def test_the_quick_way_is_taken_by_every_shipped_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the careful way was taken")

    monkeypatch.setattr(parser, "_Parser", refuse)
    for path in SPECS:
        tree, _ = _parsed(path.read_text(encoding="utf-8"))
        assert tree is not None

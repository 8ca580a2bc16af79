"""Hovers, names, completions, hints, outlines and actions, as functions of an inspection."""

from pathlib import Path

import pytest

from mstarc import driver
from mstarc.diagnostics import Diagnostic, Label
from mstarc.diagnostics.render.patch import apply_edits
from mstarc.driver import Inspection
from mstarc.lint.select import Selection
from mstarc.lsp.actions import actions, fix_all
from mstarc.lsp.complete import complete
from mstarc.lsp.documents import Document, moved
from mstarc.lsp.hints import hints
from mstarc.lsp.hover import hover
from mstarc.lsp.index import index_of, name_at
from mstarc.lsp.outline import outline
from mstarc.lsp.rename import definition, references, renamed
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from tests.support.golden import ROOT

SPECS = sorted((ROOT / "specs").glob("*.mstar"))
ORPHEUS = (ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8")


def inspected(text: str) -> Inspection:
    return driver.inspect(SourceFile(path="spec.mstar", text=text))


def offset_in(text: str, words: str) -> int:
    """Where `¦` stands in `words`, which is part of the text without it."""
    before, _, after = words.partition("¦")
    return text.index(before + after) + len(before)


def hovered(text: str, words: str) -> str:
    inspection = inspected(text)
    found = hover(inspection, index_of(inspection), offset_in(text, words))
    assert found is not None
    return found.markdown


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("token = lm.¦step", ["op lm.step(token: i64) -> (next: i64) attends causal writes"]),
        ("¦lm.step(token)", ["node lm : kv_cache", "ops: `prefill`, `step`"]),
        ("¦pcm = codec", ["pcm: f32[2048]"]),
        ("¦ids   = frontend", ["ids: i64[T]"]),
        ("send ¦codes", ["stream codes : i64", "28 codes (4 frames)", "machine `speak`"]),
        ("token != ¦eos", ["eos : int = 128258", "is `128258` here"]),
        ("loop max ¦max_tokens", ["opt max_tokens : int = 1200 in 1 .. 8192"]),
        ("run ¦vocode(window)", ["walk vocode", "(window: i64[28])"]),
        ("next ¦decode", ["state decode"]),
        ("emit ¦speech", ["out speech : audio(24000)"]),
        ("ids: i64[¦T]) -> (token", ["a free dim"]),
        ("max_tokens ¦carry token", ["`carry`: values that each pass of a loop hands to the next"]),
    ],
)
def test_hover(words: str, parts: list[str]) -> None:
    text = hovered(ORPHEUS, words)
    for part in parts:
        assert part in text


def test_nothing_is_said_about_comments_and_numbers() -> None:
    inspection = inspected(ORPHEUS)
    index = index_of(inspection)
    for words in ("# the ¦end of speech", "128¦258"):
        assert hover(inspection, index, offset_in(ORPHEUS, words)) is None


def test_definition_and_references() -> None:
    inspection = inspected(ORPHEUS)
    index = index_of(inspection)
    offset = offset_in(ORPHEUS, "token != ¦eos")
    span = definition(inspection, index, offset)
    assert span is not None
    assert ORPHEUS[span.start : span.end + 6] == "eos      "
    spans = references(inspection, index, offset, with_declaration=True)
    assert [ORPHEUS[s.start : s.end] for s in spans] == ["eos", "eos"]
    assert len(references(inspection, index, offset, with_declaration=False)) == 1


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_name_can_have_another(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    inspection = inspected(text)
    assert not inspection.diagnostics
    index = index_of(inspection)
    symbols = list(dict.fromkeys(index.meanings.values()))
    # Every twelfth: each costs a whole check, and specs differ.
    for symbol in symbols[::12]:
        new = "Zz_other" if symbol.kind == "dim" else "zz_other"
        edits = renamed(inspection, index, symbol.declaration.span.start, new)
        assert not isinstance(edits, str), (symbol.name, edits)
        found = inspected(apply_edits(text, edits)).diagnostics
        assert [d.message for d in found] == [], (symbol.kind, symbol.name)


@pytest.mark.parametrize(
    ("words", "new", "reason"),
    [
        ("token != ¦eos", "2nd", "not a name"),
        ("token != ¦eos", "while", None),
        ("token != ¦eos", "none", "a word of the language"),
        ("token != ¦eos", "layers", "there is a config value `layers` already"),
        ("walk ¦start", "vocode", "there is a walk `vocode` already"),
        ("state ¦begin", "done", "where every machine ends"),
        ("i64[¦T]) -> (token", "t", "begins with a capital letter"),
        ("# the ¦end of speech", "x", "no name here"),
    ],
)
def test_a_new_name_is_refused_with_the_reason(words: str, new: str, reason: str | None) -> None:
    inspection = inspected(ORPHEUS)
    found = renamed(inspection, index_of(inspection), offset_in(ORPHEUS, words), new)
    if reason is None:
        assert not isinstance(found, str)
    else:
        assert isinstance(found, str)
        assert reason in found


def completed(text: str, words: str, typed: str = "") -> list[str]:
    """What is offered at `¦`, where `typed` was added since the last inspection."""
    inspection = inspected(text)
    offset = offset_in(text, words)
    newer = text[:offset] + typed + text[offset:]
    source = SourceFile(path="spec.mstar", text=newer)
    found = complete(inspection, index_of(inspection), source, offset + len(typed))
    return [item.label for item in found]


@pytest.mark.parametrize(
    ("words", "typed", "offered"),
    [
        ("token = lm.¦step", "", ["prefill", "step"]),
        ("    run ¦decode(token)", "", ["start", "decode", "vocode"]),
        ("send ¦codes", "", ["codes"]),
        ("emit ¦speech", "", ["speech"]),
        ("next ¦decode", "", ["begin", "decode", "done"]),
        ("attends ¦causal", "", ["causal", "full", "prefix", "frames"]),
        ("chunk ¦sliding", "", ["fixed", "sliding", "left_context", "until"]),
        ("tail ¦drop", "", ["drop", "short", "pad"]),
        ("node lm : ¦kv_cache", "", ["kv_cache", "stateless", "host"]),
    ],
)
def test_completion_where_only_one_kind_can_come(
    words: str, typed: str, offered: list[str]
) -> None:
    assert completed(ORPHEUS, words, typed) == offered


def test_completion_of_a_statement_knows_where_it_is() -> None:
    in_walk = completed(ORPHEUS, "walk decode(first: i64) {\n  ¦loop", "")
    assert {"send", "emit", "loop", "parallel", "codec"} <= set(in_walk)
    assert not {"each", "next", "machine", "max_tokens"} & set(in_walk)
    in_state = completed(ORPHEUS, "state decode {\n    ¦run", "")
    assert {"run", "next", "each", "fork", "frontend"} <= set(in_state)
    assert not {"emit", "loop", "walk"} & set(in_state)


def test_completion_on_an_unfinished_line() -> None:
    text = ORPHEUS.replace("    token = lm.step(token)\n", "    token = lm.\n")
    assert completed(text, "token = lm.¦\n") == ["prefill", "step"]
    offered = completed(text, "token = lm.¦\n", "step(to")
    assert "token" in offered
    assert "token =" in offered


def test_nothing_is_offered_in_comments_and_strings() -> None:
    assert completed(ORPHEUS, "# the ¦end of speech") == []
    assert completed(ORPHEUS, 'impl "orpheus:¦SnacDecoder"') == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_what_is_written_would_have_been_offered(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    inspection = inspected(text)
    index = index_of(inspection)
    missing = []
    uses = [(n, s) for n, s in index.meanings.items() if n is not s.declaration]
    # A result of a walk says its value's type; no list of names helps to write it.
    assert inspection.tree is not None
    walks = inspection.tree.all_of(ast.WalkDecl)
    results = {result.name for walk in walks for result in walk.results}
    for name, symbol in uses[::6]:
        if symbol.kind == "dim" or name in results:
            continue
        offered = complete(inspection, index, inspection.source, name.span.start)
        labels = {item.label.removesuffix(" =") for item in offered}
        line = inspection.source.position(name.span.start).line
        if name.text not in labels:
            missing.append((symbol.kind, name.text, line))
    assert missing == []


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_place_of_a_spec_can_be_asked_about(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    inspection = inspected(text)
    index = index_of(inspection)
    for name in index.meanings:
        assert name_at(inspection, name.span.start) is name
        assert name_at(inspection, name.span.end) is name
    for offset in range(0, len(text), 71):
        hover(inspection, index, offset)
        complete(inspection, index, inspection.source, offset)


@pytest.mark.parametrize("cut", range(40, 2100, 173))
def test_half_a_spec_can_be_asked_about(cut: int) -> None:
    text = ORPHEUS[:cut]
    inspection = inspected(text)
    index = index_of(inspection)
    complete(inspection, index, inspection.source, cut)
    hover(inspection, index, cut - 1)
    if inspection.tree is not None:
        outline(inspection.tree, inspection.source)


def test_hints_are_types_that_nobody_wrote() -> None:
    inspection = inspected(ORPHEUS)
    whole = Span(path="spec.mstar", start=0, end=len(ORPHEUS))
    shown = [
        (ORPHEUS[: hint.offset].rsplit(None, 1)[-1], hint.text) for hint in hints(inspection, whole)
    ]
    assert ("pcm", ": f32[2048]") in shown
    assert ("ids", ": i64[T]") in shown
    assert ("window", ": i64[28]") in shown
    assert hints(inspection, Span(path="spec.mstar", start=0, end=100)) == ()


def test_outline() -> None:
    inspection = inspected(ORPHEUS)
    assert inspection.tree is not None
    entries = outline(inspection.tree, inspection.source)
    shown = [(entry.kind, entry.name, [inner.name for inner in entry.inner]) for entry in entries]
    assert shown[3] == ("node", "lm", ["prefill", "step"])
    assert shown[-1] == ("machine", "vocoder", ["listen"])
    for entry in entries:
        assert entry.span.start <= entry.name_span.start <= entry.name_span.end <= entry.span.end


def test_actions_repair_and_allow() -> None:
    text = ORPHEUS.replace("token != eos {", "token != eoss {")
    inspection = inspected(text)
    (finding,) = inspection.diagnostics
    (action,) = actions(inspection.source, inspection.diagnostics, finding.primary.span)
    assert action.title == "write `eos`"
    assert apply_edits(text, action.edits) == ORPHEUS
    unused = ORPHEUS.replace("machine speak", "let half = layers / 2\n\nmachine speak")
    found = driver.with_opinions(inspected(unused), Selection()).diagnostics
    (lint,) = [d for d in found if "half" in d.message]
    source = SourceFile(path="spec.mstar", text=unused)
    allow = next(a for a in actions(source, found, lint.primary.span) if "allow" in a.title)
    allowed = driver.with_opinions(inspected(apply_edits(unused, allow.edits)), Selection())
    assert not [d for d in allowed.diagnostics if d.code == lint.code]


def test_all_safe_fixes_at_once() -> None:
    text = ORPHEUS.replace("token != eos {", "token ≠ eos {")
    inspection = inspected(text)
    action = fix_all(inspection.source, inspection.diagnostics)
    assert action is not None
    assert apply_edits(text, action.edits) == ORPHEUS
    assert fix_all(inspected(ORPHEUS).source, ()) is None


def test_opinions_move_with_their_lines() -> None:
    text = ORPHEUS.replace("machine speak", "let half = layers / 2\n\nmachine speak")
    document = Document(path="spec.mstar", text=text)
    (lint,) = [d for d in document.lint().diagnostics if "half" in d.message]
    start = lint.primary.span.start
    document.change("# new\n" + text)
    (after,) = [d for d in document.diagnostics if "half" in d.message]
    assert after.primary.span.start == start + 6
    document.change(document.text.replace("half", "halves"))
    assert not [d for d in document.diagnostics if "half" in d.message]


def test_a_finding_that_was_changed_is_forgotten() -> None:
    place = Span(path="x", start=4, end=8)
    finding = Diagnostic(code="MS0101", message="m", primary=Label(span=place))
    assert moved((finding,), "aaaabbbbcccc", "aaaabbXbbcccc") == ()
    (same,) = moved((finding,), "aaaabbbbcccc", "aaaabbbbccXcc")
    assert same == finding
    (later,) = moved((finding,), "aaaabbbbcccc", "Xaaaabbbbcccc")
    assert later.primary.span == Span(path="x", start=5, end=9)

"""Syntax errors say what was expected, what was meant, and each mistake once."""

import pytest

from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax.forms import FORMS
from mstarc.syntax.habits import HABITS
from mstarc.syntax.parser import parse
from tests.unit.syntax.broken_forms import BROKEN, TOP, in_node, in_state, in_walk


def findings(text: str) -> tuple[Diagnostic, ...]:
    sink = DiagnosticSink()
    parse(SourceFile(path="spec.mstar", text=text), sink)
    return sink.diagnostics


def lines(text: str) -> list[tuple[int, str]]:
    source = SourceFile(path="spec.mstar", text=text)
    return [(source.position(f.primary.span.start).line, f.code) for f in findings(text)]


def test_every_form_has_a_broken_text() -> None:
    assert set(BROKEN) == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_error_in_a_construct_shows_how_it_is_written(name: str) -> None:
    form = FORMS[name]
    helps = [text for found in findings(BROKEN[name]) for text in found.helps]
    assert f"{form.noun} reads {form.text}" in helps


# What people write, the code, and the text that the fix writes in its place.
HABIT_CASES: dict[str, list[tuple[str, str, str | None]]] = {
    "slashes_for_a_comment": [
        (f"{TOP}config {{ layers : int = 28 // of the decoder\n}}", "MS0111", "#"),
        (in_walk("a = b.c(d) // then e\n"), "MS0111", "#"),
    ],
    "yaml_key": [
        ("mstar 1\nmodel: orpheus\n", "MS0114", None),
        (f"{TOP}nodes:\n  - name: lm\n    engine: kv_cache\n", "MS0114", None),
    ],
    "word_of_another_language": [
        (f'{TOP}component lm : host {{ impl "m:C" }}', "MS0110", "node"),
        (f"{TOP}def w(a: i64) {{ }}", "MS0110", "walk"),
        (f"{TOP}import torch", "MS0110", None),
        (in_walk("if wants speech { a.b() }"), "MS0110", "when"),
        (in_walk("while a != 3 { b.c() }"), "MS0110", None),
        (in_walk("return a"), "MS0110", None),
        (in_node('class "m:C"'), "MS0110", "impl"),
    ],
    "item_at_the_top": [
        (f"{TOP}op step(token: i64) -> (next: i64)", "MS0109", None),
        (f"{TOP}emit speech <- pcm", "MS0109", None),
    ],
    "comma_between_items": [
        (f"{TOP}config {{ a : int = 1, b : int = 2 }}", "MS0112", ""),
        (f"{TOP}request {{ in a : text, out b : text }}", "MS0112", ""),
    ],
    "equals_for_an_arrow": [
        (in_walk("emit speech = a"), "MS0113", "<-"),
        (in_walk("send codes -> a"), "MS0113", "<-"),
    ],
    "stream_without_policy": [
        (f"{TOP}stream codes : i64 tail drop", "MS0116", None),
        (f"{TOP}stream codes : i64\nlet a = 3", "MS0116", None),
    ],
    "loop_without_bound": [
        (in_walk("loop { a.b() }"), "MS0117", None),
        (in_walk("loop while a != 3 { b.c() }"), "MS0117", None),
    ],
    "block_by_indentation": [
        (f'{TOP}node lm : host\n  impl "m:C"\n', "MS0114", None),
        (f"{TOP}walk w(a: i64):\n  b.c(a)\n", "MS0114", None),
    ],
    "reserved_name": [
        (in_state("next = a.b()"), "MS0106", None),
        (in_walk("a = send b <- c"), "MS0106", None),
    ],
}


def test_every_habit_has_a_case() -> None:
    assert list(HABIT_CASES) == [habit.__name__ for habit in HABITS]


@pytest.mark.parametrize("case", [case for cases in HABIT_CASES.values() for case in cases])
def test_habit_of_another_language_is_answered_once(case: tuple[str, str, str | None]) -> None:
    text, code, fixed = case
    (found,) = findings(text)
    assert found.code == code
    edits = found.fix.edits if found.fix else ()
    assert [edit.text for edit in edits] == ([] if fixed is None else [fixed])


@pytest.mark.parametrize(
    "case", [c for cases in HABIT_CASES.values() for c in cases if c[2] is not None]
)
def test_fix_makes_the_text_right(case: tuple[str, str, str | None]) -> None:
    text = case[0]
    (found,) = findings(text)
    assert found.fix is not None
    for edit in reversed(found.fix.edits):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert findings(text) == ()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f"{TOP}machin m {{ }}", "`machine`"),
        (in_walk("emmit speech <- a"), "`emit`"),
        (in_walk("lop max 3 { }"), "`loop`"),
        (in_node('imp "m:C"'), "`impl`"),
        (f"{TOP}stream s : i64 chnk fixed(1)", "`chunk`"),
        (f"{TOP}request {{ inn a : text }}", "`in`"),
    ],
)
def test_misspelt_word_gets_the_nearest_one(text: str, meant: str) -> None:
    helps = " ".join(findings(text)[0].helps)
    assert f"did you mean {meant}" in helps


def test_several_mistakes_are_reported_in_one_run() -> None:
    text = f"""{TOP}config {{
  layers : int 28
  heads  : int = = 3
  fine   : int = 3
}}
node lm host {{ impl "m:C" }}
walk w(a: i64) {{
  b = lm.step(a
  c = lm.step(b)
  d = )
}}
machine m {{
  state s {{ nxt done }}
}}
"""
    assert lines(text) == [
        (4, "MS0101"),
        (5, "MS0101"),
        (8, "MS0101"),
        (11, "MS0101"),
        (12, "MS0101"),
        (15, "MS0101"),
    ]


def test_after_a_mistake_the_rest_is_in_the_tree() -> None:
    text = f"{TOP}let a = = 3\nlet b = 4\nwalk w(a: i64) {{ x = )\n y = a.b() }}\nlet c = 5\n"
    spec = parse(SourceFile(path="spec.mstar", text=text), DiagnosticSink())
    assert spec is not None
    assert len(spec.declarations) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{TOP}node n : host {{\n  kv {{ a = 1\n  op b()\n}}\nlet a = 3\n", [(4, "MS0102")]),
        ("{TOP}node n : host {{\n  op b()\nwalk w() {{ }}\nlet a = 3\n", [(3, "MS0102")]),
        ("{TOP}walk w() {{\n  a = b.c()\n", [(3, "MS0102")]),
        ("{TOP}walk w() {{ }}\n}}\nlet a = 3\n", [(4, "MS0103")]),
    ],
)
def test_missing_brace_is_one_mistake(text: str, expected: list[tuple[int, str]]) -> None:
    assert lines(text.format(TOP=TOP)) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "MS0107"),
        ("  # nothing\n", "MS0107"),
        ("model m\nlet a = 3\n", "MS0107"),
        ("mstar\nmodel m\n", "MS0107"),
        ("mstar 2\nmodel m\n", "MS0108"),
        ("mstar 1\nlet a = 3\n", "MS0122"),
        (f'{TOP}let a = "abc\nlet b = 3', "MS0104"),
        (f"{TOP}let a = 3 @", "MS0105"),
        (f"{TOP}let a = 3abc", "MS0118"),
        (f"{TOP}let a = {'9' * 60}", "MS0118"),
        (f'{TOP}let a = "\\q"', "MS0119"),
        (f"{TOP}let a = 'text'", "MS0112"),
        (f"{TOP}let a = b && c", "MS0112"),
        (f"{TOP}let a = b;", "MS0112"),
        (f"{TOP}// text\nlet a = 3", "MS0111"),
        (f"{TOP}let not = 3", "MS0106"),
        (f"{TOP}walk w(loop: i64) {{ }}", "MS0106"),
        (f"{TOP}machine m {{ }}", "MS0115"),
        (in_state("match p { }"), "MS0115"),
        (in_walk("next a"), "MS0109"),
        (in_state("emit a <- b"), "MS0109"),
        (in_state("each zip(a, b) as c { }"), "MS0120"),
        (f"{TOP}let a = {'(' * 60}1{')' * 60}", "MS0121"),
        (f"{TOP}let a = {'-' * 200}1", "MS0121"),
        (in_walk("a = b.c.d()"), "MS0123"),
        (in_walk("a = b on c"), "MS0123"),
        (f"{TOP}stream s : i64 chunk sliding(window = 4, hop = 2)", "MS0110"),
    ],
)
def test_mistake_has_its_code(text: str, code: str) -> None:
    assert [found.code for found in findings(text)] == [code]


def test_words_of_the_language_are_names_where_they_cannot_be_words() -> None:
    text = in_node("op cost(size: i64) -> (next: i64)  cost { flops = 3 }")
    assert findings(text) == ()
    assert findings(in_walk("table = a.cost(size = chunk)  state = table")) == ()

"""Syntax errors say what was expected, what was meant, and each mistake once."""

import pytest

from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax.forms import FORMS
from mstarc.syntax.habits import HABITS
from mstarc.syntax.parser import parse
from tests.unit.syntax.broken_forms import BROKEN, TOP, in_node, in_state, in_walk
from tests.unit.syntax.habit_cases import HABIT_CASES


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
    assert any(help_.startswith(f"{form.noun} reads {form.text}") for help_ in helps)


def test_every_habit_has_a_case() -> None:
    assert set(HABIT_CASES) == {habit.__name__ for habit in HABITS}


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


@pytest.mark.parametrize(
    ("text", "code", "fixed"),
    [
        (f"{TOP}/* two\n * lines */\nlet a = 3\n", "MS0111", "# two\n# lines"),
        (f"{TOP}<!-- said -->\nlet a = 3\n", "MS0111", "# said"),
        (f'{TOP}"""Said."""\nlet a = 3\n', "MS0111", "# Said."),
        (f"{TOP}-- said\nlet a = 3\n", "MS0111", "# said"),
        (f"{TOP}let a = \u22123\n", "MS0112", "-"),
        (
            f"{TOP}let a\uff1a b\n".replace("let a\uff1a b", "config { a \uff1a int }"),
            "MS0112",
            ":",
        ),
        (f"{TOP}let a = \u2018b\u2019\n", "MS0112", '"b"'),
        (f"{TOP}let a\u200b = 3\n", "MS0105", ""),
        (f"{TOP}need a === b\n", "MS0101", ""),
        (f"{TOP}need a <> b\n", "MS0101", "!="),
        (f"{TOP}need a = b\n", "MS0101", "=="),
        (in_node('impl = "m:C"'), "MS0101", ""),
        (in_node("kv { a: 1 }"), "MS0101", "="),
        (f"{TOP}request {{ opt a : int = 2 in 1 to 3 }}", "MS0101", ".."),
        (f"{TOP}let a = 0x10\n", "MS0118", "16"),
        (f"{TOP}let a = 128_258\n", "MS0118", "128258"),
        (in_node('weights "a" size 14GB'), "MS0118", "14 GB"),
        (in_walk("a = b.c(a, d,)"), "MS0112", ""),
        (in_node("kv { a = 1, }"), "MS0112", ""),
        (f"{TOP}let a = [1, 2,]\n", "MS0112", ""),
        ('mstar "1"\nmodel m\n', "MS0107", "mstar 1"),
        ("mstar: 1\nmodel m\n", "MS0107", "mstar 1"),
        ("version 1.0\nmodel m\n", "MS0107", "mstar 1"),
        (f"{TOP}node n : host\n  op b()\n}}\nlet a = 3\n", "MS0114", " {"),
        (f"{TOP}node n : host:\n  op b()\n}}\nlet a = 3\n", "MS0114", " {"),
        (f"{TOP}machine m {{\n  state s\n    next done\n  }}\n}}\n", "MS0114", " {"),
    ],
)
def test_foreign_text_is_one_mistake_with_a_fix(text: str, code: str, fixed: str) -> None:
    (found,) = findings(text)
    assert found.code == code and found.helps and found.fix is not None
    (edit,) = found.fix.edits
    assert edit.text == fixed
    assert findings(text[: edit.span.start] + edit.text + text[edit.span.end :]) == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"{TOP}let a = ${{EOS}}\nlet b = 3\n", "MS0105"),
        (f"```mstar\n{TOP}let a = 3\n```\n", "MS0112"),
        (f"{TOP}<<<<<<< HEAD\nlet a = 3\n=======\nlet a = 4\n>>>>>>> b\nlet c = 3\n", "MS0112"),
    ],
)
def test_what_a_tool_left_is_one_mistake(text: str, code: str) -> None:
    (found,) = findings(text)
    assert found.code == code and found.helps


def test_settings_without_commas_are_one_mistake_with_one_fix() -> None:
    text = in_node("kv {\n  layers = 2\n  heads = 2\n  head_dim = 64\n}")
    (found,) = findings(text)
    assert found.fix is not None and len(found.fix.edits) == 2


def test_byte_order_mark_is_no_mistake() -> None:
    assert findings(f"\ufeff{TOP}let a = 3\n") == ()


def test_number_that_goes_on_as_a_word_is_never_read_as_less() -> None:
    assert [found.code for found in findings(f"{TOP}let a = b - 3b\n")] == ["MS0118"]
    assert [found.code for found in findings(f"{TOP}let a = b-3b\n")] == ["MS0118"]


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

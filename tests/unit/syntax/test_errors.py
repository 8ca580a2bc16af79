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
    "definition": [
        (f"{TOP}def w(a: i64) {{ }}", "MS0110", None),
        (f"{TOP}def f(x):\n    y = g(x)\n    return y\n", "MS0110", None),
        (f"{TOP}async def f(x):\n    await x\n", "MS0110", None),
        (f"{TOP}@walk\ndef f(x) -> int:\n    return x\n", "MS0110", None),
        (
            f"{TOP}class LM(Node):\n    def step(self, token):\n        return token\n",
            "MS0110",
            None,
        ),
        (f"{TOP}import torch\nimport numpy as np\nfrom a import b\n", "MS0110", None),
        (f"{TOP}from torch import nn\nlet a = 3\n", "MS0110", None),
        (f"{TOP}use mstar::nodes;", "MS0110", None),
    ],
    "order_of_a_declaration": [
        (f'{TOP}kv_cache lm : node {{ impl "m:C" }}', "MS0101", None),
        (f'{TOP}lm node : kv_cache {{ impl "m:C" }}', "MS0101", None),
    ],
    "model_as_a_block": [('mstar 1\nmodel m {\n  from "o/m"\n}\n', "MS0101", None)],
    "next_with_a_mark": [
        (in_state("next = b"), "MS0112", ""),
        (in_state("run w()\n-> b"), "MS0112", "next"),
    ],
    "counting_loop": [
        (in_walk("for i in range(8) { b.c() }"), "MS0110", None),
        (in_walk("for i in 0 .. 8 { b.c() }"), "MS0110", None),
        (in_walk("for (i = 0; i < 8; i++) { b.c() }"), "MS0110", None),
        (in_walk("\n  for i in range(8):\n    b.c()\n"), "MS0110", None),
    ],
    "condition_taken_for_a_suffix": [
        (in_walk("send b <- a\nif guided { d.e() }"), "MS0110", None),
        (in_walk("\n  send b <- a\n  if guided:\n    d.e()\n"), "MS0110", None),
        (in_walk("send b <- a\nif a == 2 { break }"), "MS0110", None),
    ],
    "call_for_a_send": [
        (in_walk("send(codes, a)"), "MS0113", "send codes <- a"),
        (in_walk("emit(speech, a)"), "MS0113", "emit speech <- a"),
        (in_walk("send a to codes"), "MS0113", "send codes <- a"),
        (in_walk("emit(speech, b.c(a))"), "MS0113", None),
    ],
    "negated_operator": [
        (f"{TOP}need a not in [1, 2]", "MS0112", None),
        (f"{TOP}need a is not b", "MS0112", "!="),
    ],
    "statement_without_its_word": [
        (f"{TOP}stream b : i64 chunk fixed(1)\nwalk w(a: i64) {{ b <- a }}", "MS0101", "send "),
        (in_walk("speech <- a"), "MS0101", "emit "),
        (f"{TOP}walk w() {{ }}\nmachine m {{ state s {{ w() next done }} }}", "MS0101", "run "),
    ],
    "run_of_an_op": [(in_state("a = run b.c(d) next e"), "MS0101", "")],
    "typed_value": [(in_walk("\n  b: f32[4] = c.d(a)\n"), "MS0112", "")],
    "flow_of_calls": [
        (in_walk("a -> b.c -> d"), "MS0112", None),
        (in_walk("a |> b.c |> d"), "MS0112", None),
        (in_walk("a += b.c(a)"), "MS0112", None),
    ],
    "each_in_another_order": [(in_state("each w in codes { run v(w) }"), "MS0101", "codes as w")],
    "choice_by_a_question_mark": [(in_state("next b ? c : d"), "MS0112", None)],
    "dash_in_a_name": [
        ("mstar 1\nmodel orpheus-3b\n", "MS0101", "orpheus_3b"),
        (f'{TOP}node my-lm : host {{ impl "m:C" }}', "MS0101", "my_lm"),
    ],
    "range_as_a_call": [
        (f"{TOP}request {{ opt a : float = 0.6 in range(0, 2) }}", "MS0110", None),
    ],
    "generic_type": [
        (in_node("op b(a: tensor<28xi64>)"), "MS0110", None),
        (in_node("op b(a: Optional<i64>)"), "MS0110", None),
    ],
    "literal": [
        (f"{TOP}config {{ a : bool = True }}", "MS0110", "true"),
        (f"{TOP}request {{ opt a : str = None }}", "MS0110", None),
    ],
    "text_without_quotes": [
        (in_node("impl orpheus:LanguageModel"), "MS0101", '"orpheus:LanguageModel"'),
        ("mstar 1\nmodel m from org/m-3b-0.1-ft\n", "MS0101", '"org/m-3b-0.1-ft"'),
        (in_node('impl f"m:{name}"'), "MS0112", ""),
    ],
    "results_without_parentheses": [
        (in_node("op b(a: i64) -> i64"), "MS0101", None),
        (in_node("op b(a: i64) -> c: i64[T, 4] attends causal"), "MS0101", "(c: i64[T, 4])"),
        (f"{TOP}walk w(a: i64) -> {{ b.c(a) }}", "MS0101", None),
    ],
    "alias_after_parameters": [
        (f'{TOP}walk w(a: i64) as "x" {{ b.c(a) }}', "MS0101", None),
    ],
    "op_without_its_word": [
        (in_node('impl "m:C"\nstep(a: i64) -> (b: i64)\nop c()'), "MS0101", "op "),
        (in_node("op c() writes\nstep(a: i64) -> (b: i64)"), "MS0101", "op "),
    ],
    "settings_without_commas": [
        (in_node("kv {\n  layers = 2\n  heads = 2\n}"), "MS0101", ","),
    ],
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
        (in_walk("if wants speech { a.b() }"), "MS0110", "when"),
        (in_walk("while a != 3 { b.c() }"), "MS0110", None),
        (in_walk("\n  if guided:\n    b.c()\n"), "MS0110", None),
        (in_walk("\n  while a != 3:\n    b.c()\n"), "MS0110", None),
        (in_node("op a() writes\n  def step(self, token):"), "MS0110", None),
        (f"{TOP}request {{ input prompt : text }}", "MS0110", "in"),
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
        (
            f"{TOP}stream codes : i64 chunk fixed(1)\nwalk w(a: i64) {{ send a -> codes }}",
            "MS0113",
            None,
        ),
    ],
    "stream_without_policy": [
        (f"{TOP}stream codes : i64 tail drop", "MS0116", None),
        (f"{TOP}stream codes : i64\nlet a = 3", "MS0116", None),
    ],
    "loop_without_bound": [
        (in_walk("loop { a.b() }"), "MS0117", None),
        (in_walk("loop while a != 3 { b.c() }"), "MS0117", None),
    ],
    "type_left_out": [
        (f"{TOP}request {{\n  in prompt\n  out speech : audio(24000)\n}}", "MS0101", None),
        (f"{TOP}config {{ layers = 28 }}", "MS0101", None),
        (in_node("op step(token)"), "MS0101", None),
        (f"{TOP}stream codes chunk fixed(1)", "MS0101", None),
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

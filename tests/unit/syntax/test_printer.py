"""The one canonical form, construct by construct."""

from textwrap import dedent

import pytest

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax.parser import parse
from mstarc.syntax.printer import print_spec

HEAD = "mstar 1\n\nmodel m\n\n"


def formatted(text: str) -> str:
    source = SourceFile(path="spec.mstar", text=HEAD + dedent(text))
    sink = DiagnosticSink()
    spec = parse(source, sink)
    assert not sink.diagnostics
    assert spec is not None
    printed = print_spec(spec, source)
    assert printed.startswith(HEAD)
    again = SourceFile(path="spec.mstar", text=printed)
    spec_again = parse(again, sink)
    assert spec_again is not None
    assert print_spec(spec_again, again) == printed
    return printed.removeprefix(HEAD)


def check(text: str, expected: str) -> None:
    assert formatted(text) == dedent(expected)


def test_config_and_request_stand_in_columns() -> None:
    check(
        """\
        config { layers:int=28 from "num_hidden_layers" # of the decoder
          eos:int=128258
            names : [str] = ["a","b"]   # known
        }
        request {
          in prompt:text
          out speech:audio(24000)  optional
          opt voice:str="tara"
          opt temperature:float=0.6 in 0.0..2.0
        }
        """,
        """\
        config {
          layers : int   = 28 from "num_hidden_layers"  # of the decoder
          eos    : int   = 128258
          names  : [str] = ["a", "b"]                   # known
        }

        request {
          in  prompt      : text
          out speech      : audio(24000) optional
          opt voice       : str   = "tara"
          opt temperature : float = 0.6 in 0.0 .. 2.0
        }
        """,
    )


def test_a_block_on_one_line_stays_there_if_it_fits() -> None:
    check(
        """\
        walk start(ids:i64[T])->(token:i64) { token=lm.prefill(ids) }
        walk two(a: i64) { b = lm.step(a)
          c = lm.step(b) }
        """,
        """\
        walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }

        walk two(a: i64) {
          b = lm.step(a)
          c = lm.step(b)
        }
        """,
    )


def test_a_block_on_one_line_that_does_not_fit_is_opened() -> None:
    long = "a_long_name_of_a_value"
    check(
        f"walk w({long}: i64) {{ {long}_2 = lm.step({long})  {long}_3 = lm.step({long}_2) }}\n",
        f"""\
        walk w({long}: i64) {{
          {long}_2 = lm.step({long})
          {long}_3 = lm.step({long}_2)
        }}
        """,
    )


def test_statements_of_a_kind_line_up() -> None:
    check(
        """\
        walk w(a: i64) {
          ids = x.encode(a)
          token = lm.step(ids)
          emit b <- token

          h, _ = lm.other(token)
          c = x.y()
        }
        """,
        """\
        walk w(a: i64) {
          ids   = x.encode(a)
          token = lm.step(ids)
          emit b <- token

          h, _ = lm.other(token)
          c = x.y()
        }
        """,
    )


def test_ops_line_up_unless_one_is_too_long() -> None:
    check(
        """\
        node lm : kv_cache as "LM" {
          impl "m:LM"
          op prefill(ids: i64[T])->(token: i64) attends causal writes
          op step(token: i64) -> (next: i64) attends causal writes advance 1
          op long_one(first: bf16[T, hidden], second: bf16[T, hidden], speak: flag)
            -> (token: i64 if speak)  writes
        }
        """,
        """\
        node lm : kv_cache as "LM" {
          impl "m:LM"
          op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
          op step(token: i64)     -> (next: i64)   attends causal  writes  advance 1
          op long_one(first: bf16[T, hidden], second: bf16[T, hidden], speak: flag)
              -> (token: i64 if speak)  writes
        }
        """,
    )


def test_comments_stay_where_they_were() -> None:
    check(
        """\
        # before

        ## About the walk.
        walk w(a: i64) {  # after the brace
          # first
          b = lm.step(a)    # after b


          # last
        }  # after
        # the end
        """,
        """\
        # before

        ## About the walk.
        walk w(a: i64) {  # after the brace
          # first
          b = lm.step(a)  # after b

          # last
        }  # after
        # the end
        """,
    )


def test_comments_inside_something_short_are_kept_beside_it() -> None:
    check(
        """\
        walk w(a: i64) {
          b = lm.step(
            # why
            a,   # this one
            3
          )
        }
        """,
        """\
        walk w(a: i64) {
          # why
          b = lm.step(a, 3)  # this one
        }
        """,
    )


def test_branches_and_loops() -> None:
    check(
        """\
        walk w(a: i64) {
          loop max 3 as i carry x=a collect all=x while x!=2 { x=lm.step(x)
          } until x == 4
          when a > 3 { b = lm.step(a)
          } else when a > 2 { b = lm.other(a) }
          else { b = lm.none(a) }
          when t[i] > 3 and (c or d) { parallel { e = f.g()  h = f.g() } }
        }
        """,
        """\
        walk w(a: i64) {
          loop max 3 as i carry x = a collect all = x while x != 2 {
            x = lm.step(x)
          } until x == 4
          when a > 3 {
            b = lm.step(a)
          } else when a > 2 {
            b = lm.other(a)
          } else {
            b = lm.none(a)
          }
          when t[i] > 3 and (c or d) { parallel { e = f.g()  h = f.g() } }
        }
        """,
    )


def test_machines() -> None:
    check(
        """\
        machine talk when wants speech {
          state listen { for part in parts { match part {
                text(t) { ids = f.text(t) }
                image(i) { px = f.image(i) }
              } }
            each zip(a,b) as x,y,last chunk fixed(2) until end { run w(x) }
            mark s.end
            next go if a else done }
          state go { next done }
        }
        """,
        """\
        machine talk when wants speech {
          state listen {
            for part in parts {
              match part {
                text(t)  { ids = f.text(t) }
                image(i) { px = f.image(i) }
              }
            }
            each zip(a, b) as x, y, last chunk fixed(2) until end { run w(x) }
            mark s.end
            next go if a else done
          }
          state go { next done }
        }
        """,
    )


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("((a))", "a"),
        ("(a * b) / c", "a * b / c"),
        ("(a // 16) * (b // 16)", "(a // 16) * (b // 16)"),
        ("a // 16 * b", "(a // 16) * b"),
        ("a - (b - c)", "a - (b - c)"),
        ("not (a and b)", "not (a and b)"),
        ("(not a) and b", "not a and b"),
        ('"a\\"b\\\\"', '"a\\"b\\\\"'),
        ("x[ : , 1:n ]", "x[:, 1:n]"),
    ],
)
def test_expressions_have_the_parentheses_that_they_need(written: str, canonical: str) -> None:
    assert formatted(f"let a = {written}\n") == f"let a = {canonical}\n"


def test_declarations_are_apart_if_they_are_long() -> None:
    check(
        """\
        let a = 1
        let bcd = 2
        need wants a
        stream s : i64 chunk fixed(1)
        walk w() {
          a.b()
        }
        walk v() { a.b() }
        walk u() { a.b() }
        """,
        """\
        let a   = 1
        let bcd = 2
        need wants a
        stream s : i64 chunk fixed(1)

        walk w() {
          a.b()
        }

        walk v() { a.b() }
        walk u() { a.b() }
        """,
    )

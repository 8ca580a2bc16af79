"""Walks in single-assignment form: names, loops, choices, calls in calls, walks in walks."""

import re

from mstarc.ir.graph import Call, Loop, Program, Walk
from mstarc.ir.text import print_program
from tests.support.front_half import lowered

PLACE = re.compile(r"( #\S+)?( !\d+:\d+)( \{)?$")

SPEC = """
mstar 1
model demo
request {
  out reply : text via tok.text
  opt fast  : bool = false
  opt steps : int = 4 in 0 .. 8
}
node tok : host {
  impl "demo:Tok"
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "demo:Model"
  kv { layers = 2, heads = 2, head_dim = 8 }
  contexts main, draft
  op step(token: i64) -> (next: i64)
  op deep(token: i64, depth: i64) -> (code: i64)
  op join(codes: i64[N], extra: i64 or none) -> (next: i64)
  op peek(token: i64, last: flag) -> (token: i64 if last)  reads
}
WALKS
machine main {
  state begin {
    run answer(1)
    next done
  }
}
"""


def program(walks: str) -> Program:
    return lowered(SPEC.replace("WALKS", walks))


def text_of(walks: str) -> str:
    """The walk `answer` as the IR prints it, without places and sites."""
    found = program(walks)
    lines = print_program(found).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("walk answer"))
    end = lines.index("}", start)
    return "\n".join(PLACE.sub("", line) for line in lines[start : end + 1])


def walk(walks: str) -> Walk:
    return next(walk for walk in program(walks).walks if walk.name == "answer")


def test_a_name_that_is_set_again_is_another_value() -> None:
    assert (
        text_of("""walk answer(first: i64) {
          token = lm.step(first)
          token = lm.step(token)
          emit reply <- token
        }""")
        == """\
walk answer(%first: i64)
  %token: i64 = lm.step(%first) on main
  %token.1: i64 = lm.step(%token) on main
  emit reply <- %token.1
}"""
    )


def test_a_loop_carries_parameters_of_its_body() -> None:
    assert (
        text_of("""walk answer(first: i64) {
          loop max steps as i carry token = first collect all = token while token != 2 {
            token = lm.deep(token, i)
          }
          token = lm.join(all, token)
          emit reply <- token
        }""")
        == """\
walk answer(%first: i64)
  %token.2: i64 = loop max $steps index i carry (%token: i64 = %first) \
collect (%all: i64[?] <- %token.1) while %token != 2
    %token.1: i64 = lm.deep(%token, ^i) on main
    yield %token.1
  }
  %token.3: i64 = lm.join(%all, %token.2) on main
  emit reply <- %token.3
}"""
    )


def test_what_is_read_behind_a_choice_is_its_result() -> None:
    assert (
        text_of("""walk answer(first: i64) {
          when fast {
            a = lm.step(first)
            b = lm.step(a)
          } else {
            a = lm.deep(first, 0)
          }
          c = lm.join(concat(a, first), b)
          emit reply <- c
        }""")
        == """\
walk answer(%first: i64)
  %a.2: i64, %b.1: i64 or none = when $fast
    %a: i64 = lm.step(%first) on main
    %b: i64 = lm.step(%a) on main
    yield %a, %b
  } else {
    %a.1: i64 = lm.deep(%first, 0) on main
    yield %a.1, none
  }
  %c: i64 = lm.join(concat(%a.2, %first), %b.1) on main
  emit reply <- %c
}"""
    )


def test_what_nobody_reads_behind_a_choice_is_no_result() -> None:
    body = walk("""walk answer(first: i64) {
      when fast {
        a = lm.step(first)
        _ = lm.step(a)
      }
      emit reply <- first
    }""").body
    assert getattr(body[0], "results", None) == ()


def test_calls_in_calls_run_from_the_inside_out() -> None:
    assert (
        text_of("""walk answer(first: i64) {
          emit reply <- lm.step(lm.deep(first, 1))
        }""")
        == """\
walk answer(%first: i64)
  %code: i64 = lm.deep(%first, 1) on main
  %next: i64 = lm.step(%code) on main
  emit reply <- %next
}"""
    )


def test_a_walk_that_is_run_stands_in_its_place() -> None:
    assert (
        text_of("""walk twice(token: i64) -> (token: i64) {
          token = lm.step(token)
          token = lm.step(token)
        }
        walk answer(first: i64) {
          token = run twice(first)
          token = run twice(token)
          emit reply <- token
        }
        """)
        == """\
walk answer(%first: i64)
  %token: i64 = lm.step(%first) on main
  %token.1: i64 = lm.step(%token) on main
  %token.2: i64 = lm.step(%token.1) on main
  %token.3: i64 = lm.step(%token.2) on main
  emit reply <- %token.3
}"""
    )


def test_contexts_are_written_out() -> None:
    body = walk("""walk answer(first: i64) {
      token = lm.step(first)
      fork lm.draft = lm.main
      token = lm.step(token) on draft
      token = lm.peek(token, last = true) on draft
      emit reply <- token
    }""").body
    assert [s.context for s in body if isinstance(s, Call)] == ["main", "draft", "draft"]


def test_sites_number_calls_and_loops_of_a_walk() -> None:
    body = walk("""walk answer(first: i64) {
      loop steps times carry a = first {
        a = lm.step(a)
        loop 2 times as depth carry b = a { b = lm.deep(b, depth) }
        a = lm.step(b)
      }
      emit reply <- lm.step(a)
    }""").body
    outer = body[0]
    assert isinstance(outer, Loop)
    inner = outer.body[1]
    assert isinstance(inner, Loop)
    assert [outer.site, inner.site] == ["answer/loop0", "answer/loop1"]
    calls = [s.site for s in (*outer.body, *inner.body, *body) if isinstance(s, Call)]
    assert calls == ["answer/0", "answer/2", "answer/1", "answer/3"]

"""What streams, contexts, parts and wants mean."""

from typing import Any

from mstarc.ir.interpret import Outcome, Part, Request, interpret
from mstarc.ir.text import parse_program
from mstarc.ir.verify import verify

STREAMS = """
program streams
input prompt : text
output out : text
option count : int = 7 in 0 .. 20
node n : kv_cache {
  impl "m:N"
  context main
  op step(token: i64) -> (token: i64) attends causal writes main
}
stream s : i64 chunk POLICY from first to second
machine first {
  state begin {
    run count() #first/0
    next done
  }
}
walk count() {
  loop times $count index i #count/0 { send s <- ^i }
}
machine second {
  register %x: i64 or none
  state begin {
BODY
    next done
  }
}
"""


def run(policy: str, body: str, **options: Any) -> Outcome:
    """What the second machine does with the numbers that the first one sends."""
    text = STREAMS.replace("POLICY", policy).replace("BODY", body)
    program = parse_program(text)
    verify(program, stage="test")
    return interpret(program, Request(options=options))


def test_each_hands_over_chunks_and_the_item_itself_for_one() -> None:
    each = "each s as %c: i64[3] #second/0 { emit out <- %c }"
    assert run("fixed(3) tail short", each).emits["out"] == ((0, 1, 2), (3, 4, 5), (6,))
    assert run("fixed(3) tail pad(9)", each).emits["out"][-1] == (6, 9, 9)
    assert run("fixed(1)", each, count=2).emits["out"] == (0, 1)


def test_an_empty_stream_is_skipped_or_an_error() -> None:
    each = "each s as %c: i64[3] #second/0 { emit out <- %c }"
    skipped = run("fixed(3) empty skip", each, count=0)
    assert (skipped.emits["out"], skipped.error, skipped.stuck) == ((), None, ())
    refused = run("fixed(3) empty error", each, count=0)
    assert refused.error == "stream `s` closed without an item"


def test_last_is_the_last_chunk_whenever_it_comes() -> None:
    each = "each s as %c: i64[N] last %end #second/0 { emit out <- %end }"
    assert run("fixed(2) tail drop", each).emits["out"] == (False, False, True)
    assert run("fixed(2) tail short", each).emits["out"] == (False, False, False, True)
    assert run("fixed(2) tail drop", each, count=1).emits["out"] == ()


def test_pull_or_none_gives_none_once_the_stream_is_closed() -> None:
    body = """
      loop times 4 #second/0 {
        %x: i64 or none = pull s or none
        emit out <- %x
      }"""
    assert run("fixed(1)", body, count=2).emits["out"] == (0, 1, None, None)


def test_a_pull_that_needs_an_item_ends_the_request() -> None:
    outcome = run("fixed(1)", "%x: i64 or none = pull s", count=0)
    assert outcome.error == "stream `s` is closed"


def test_a_read_may_cut_otherwise_than_its_stream() -> None:
    body = """
      %x: i64 or none = pull s
      each s as %c: i64[2] chunk fixed(2) #second/0 { emit out <- %c }"""
    assert run("fixed(1) tail drop", body, count=6).emits["out"] == ((1, 2), (3, 4))


MARKS = """
program marks
input prompt : text
output out : text
stream s : (a: i64, b: i64) chunk fixed(1) marks half from first to second
machine first {
  state begin {
    run pair(1) #first/0
    run pair(2) #first/1
    mark s.half
    run pair(3) #first/2
    next done
  }
}
walk pair(%x: i64) { send s <- %x, %x + 10 }
machine second {
  state begin {
    each s as %c: (a: i64[N], b: i64[N]) chunk until(mark half, max = 9) until half #second/0 {
      emit out <- %c.a
      emit out <- %c.b
    }
    next rest
  }
  state rest {
    each s as %one: (a: i64, b: i64) #second/1 { emit out <- %one.b }
    next done
  }
}
"""


def test_a_mark_ends_a_read_and_the_next_one_goes_on_behind_it() -> None:
    program = parse_program(MARKS)
    verify(program, stage="test")
    assert interpret(program, Request()).emits["out"] == ((1, 2), (11, 12), 13)


ZIP = """
program zip
input prompt : text
output out : text
option extra : int = 0 in 0 .. 1
stream s : i64 chunk fixed(1) from first to second
stream t : i64 chunk fixed(1) from first to second
machine first {
  state begin { run count() #first/0 next done }
}
walk count() {
  loop times 3 index i #count/0 {
    send s <- ^i
    send t <- ^i * 2
  }
  send t <- 9 if $extra == 1
}
machine second {
  state begin {
    each s, t as %a: i64, %b: i64 #second/0 { emit out <- %a + %b }
    next done
  }
}
"""


def test_streams_in_step_are_read_in_step_and_end_together() -> None:
    program = parse_program(ZIP)
    assert interpret(program, Request()).emits["out"] == (0, 3, 6)
    uneven = interpret(program, Request(options={"extra": 1}))
    assert uneven.error == "streams that are read in step end apart"


CONTEXTS = """
program contexts
input prompt : text
output out : text
option way : int = 0 in 0 .. 3
node n : kv_cache {
  impl "m:N"
  context main
  context side
  op write(token: i64) attends causal writes main
  op look(token: i64) -> (token: i64) attends causal reads main
}
machine main {
  register %x: i64
  state begin {
    n.write(1) on main #main/0
    n.write(2) on main #main/1
    fork n.side = n.main if $way == 1
    n.write(3) on main #main/2
    release n.main if_way
    %x: i64 = n.look(5) on side #main/3
    emit out <- %x
    n.write(9) on side #main/4
    %x: i64 = n.look(5) on main #main/5
    emit out <- %x
    next done
  }
}
"""


def test_a_fork_keeps_what_was_there_and_a_release_empties() -> None:
    outs = {}
    for way, release in ((0, ""), (1, ""), (1, "release n.main")):
        text = CONTEXTS.replace("release n.main if_way", release)
        outcome = interpret(parse_program(text), Request(options={"way": way}))
        outs[way, release] = outcome.emits["out"]
    empty_side, plain_main = outs[0, ""]
    forked_side, same_main = outs[1, ""]
    _, released_main = outs[1, "release n.main"]
    assert plain_main == same_main
    assert forked_side not in (empty_side, plain_main)
    assert released_main == empty_side


PARTS = """
program parts
input parts : [text | image] at least 1
output out : text
machine main {
  register %t: text
  register %i: image
  state begin {
    for p in parts {
      match p {
        text %t: text { emit out <- %t if not part p.last }
        image %i: image { emit out <- %i if part p.role == "user" }
      }
      emit out <- 1 if part p.opens
      emit out <- 2 if part p.closes
    }
    emit out <- 3 if has image
    next done
  }
}
"""


def test_parts_come_in_the_order_given() -> None:
    program = parse_program(PARTS)
    parts = (
        Part(kind="text", value="a"),
        Part(kind="image", value="b"),
        Part(kind="text", value="c", role="assistant"),
    )
    outcome = interpret(program, Request(inputs={"parts": parts}))
    assert outcome.emits["out"] == ("a", 1, "b", 2, 1, 2, 3)


def test_an_output_that_was_not_asked_for_is_not_emitted() -> None:
    program = parse_program(
        """
        program wants
        output a : text
        output b : text optional
        stream s : i64 chunk fixed(1) from first to second
        machine first {
          state begin { send s <- 4 emit a <- 1 emit b <- 2 next done }
        }
        machine second when wants b {
          state begin { each s as %x: i64 #second/0 { emit b <- %x } next done }
        }
        """
    )
    assert interpret(program, Request()).emits == {"a": (1,), "b": ()}
    wanted = interpret(program, Request(wants=frozenset({"a", "b"})))
    assert wanted.emits == {"a": (1,), "b": (2, 4)}


def test_machines_that_wait_for_one_another_are_stuck() -> None:
    program = parse_program(
        """
        program stuck
        output a : text
        stream s : i64 chunk fixed(1) from first to second
        stream t : i64 chunk fixed(1) from second to first
        machine first {
          state begin { each t as %x: i64 #first/0 { emit a <- %x } send s <- 1 next done }
        }
        machine second {
          state begin { each s as %x: i64 #second/0 { emit a <- %x } send t <- 1 next done }
        }
        """
    )
    assert interpret(program, Request()).stuck == ("first", "second")

"""Loops: what runs how often, and what is seen afterwards."""

from typing import Any

import pytest

from mstarc.ir.interpret import Outcome, Request, interpret
from mstarc.ir.text import parse_program
from mstarc.ir.verify import verify

HEAD = """
program loops
input prompt : text
output out : text
option count : int = 4 in 0 .. 9
node a : kv_cache {
  impl "m:A"
  context main
  op step(token: i64, other: i64) -> (token: i64) attends causal writes main
}
node b : kv_cache {
  impl "m:B"
  context main
  op step(token: i64, other: i64) -> (token: i64) attends causal writes main
}
machine main {
  state begin { run go(5) #main/0 next done }
}
walk go(%cond: i64) {
"""


def run(body: str, **options: Any) -> Outcome:
    """What a walk `go(%cond)` with this body does."""
    program = parse_program(HEAD + body + "}\n")
    verify(program, stage="test")
    return interpret(program, Request(inputs={"prompt": "hello"}, options=options, tokens=(7,)))


def test_two_calls_that_read_one_outer_value_both_run_in_every_pass() -> None:
    outcome = run("""
      %end: i64 = loop times $count carry (%x: i64 = %cond) #go/0 {
        %y: i64 = a.step(%x, %cond) #go/1
        %z: i64 = b.step(%y, %cond) #go/2
        yield %z
      }
      emit out <- %end
    """)
    assert (outcome.calls["go/1"], outcome.calls["go/2"]) == (4, 4)
    assert len(outcome.emits["out"]) == 1


@pytest.mark.parametrize("kind", ["times", "max"])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_a_bound_is_the_number_of_passes(kind: str, count: int) -> None:
    outcome = run(
        f"""
      %end: i64 = loop {kind} $count carry (%x: i64 = %cond) collect (%all: i64[?] <- %y) #go/0 {{
        %y: i64 = a.step(%x, %x) #go/1
        yield %y
      }}
      emit out <- %end
      emit out <- %all
    """,
        count=count,
    )
    end, collected = outcome.emits["out"]
    assert outcome.calls.get("go/1", 0) == count
    assert len(collected) == count
    assert end == (collected[-1] if count else 5)


def test_a_bound_below_zero_is_no_pass() -> None:
    outcome = run("loop times $count - 5 #go/0 { emit out <- %cond }", count=3)
    assert outcome.emits["out"] == ()


def test_nested_loops_run_the_product_of_their_bounds() -> None:
    outcome = run("""
      loop times 3 index i #go/0 {
        loop times $count index j #go/1 {
          %y: i64 = a.step(^i, ^j) #go/2
          emit out <- ^i * 10 + ^j
        }
      }
    """)
    assert outcome.calls["go/2"] == 12
    assert outcome.emits["out"] == tuple(i * 10 + j for i in range(3) for j in range(4))


def test_an_inner_loop_that_ends_its_outer_body_counts_every_time() -> None:
    outcome = run("""
      %end: i64 = loop times 2 carry (%x: i64 = %cond) #go/0 {
        %y: i64 = loop times 3 carry (%z: i64 = %x) #go/1 {
          %w: i64 = a.step(%z, %x) #go/2
          yield %w
        }
        yield %y
      }
      emit out <- %end
    """)
    assert outcome.calls["go/2"] == 6


def test_while_is_tested_before_the_first_pass_too() -> None:
    outcome = run("""
      %end: i64 = loop max 9 carry (%x: i64 = %cond) while %x != 5 #go/0 {
        %y: i64 = a.step(%x, %x) #go/1
        yield %y
      }
      emit out <- %end
    """)
    assert outcome.calls.get("go/1", 0) == 0
    assert outcome.emits["out"] == (5,)


def test_until_is_tested_after_the_pass() -> None:
    outcome = run("""
      %end: i64 = loop max 9 index i carry (%x: i64 = %cond) until ^i + 1 == 3 #go/0 {
        %y: i64 = a.step(%x, %x) #go/1
        emit out <- %y
        yield %y
      }
    """)
    assert outcome.calls["go/1"] == len(outcome.emits["out"]) == 3


def test_a_loop_that_stops_at_its_first_pass_delivers_that_pass() -> None:
    outcome = run("""
      %end: i64 = loop max 9 carry (%x: i64 = %cond) until %x == 5 #go/0 {
        %y: i64 = a.step(%x, %x) #go/1
        emit out <- %y
        yield %y
      }
      emit out <- %end
    """)
    first, last = outcome.emits["out"]
    assert first == last


def test_one_value_is_collected_and_carried_to_two_readers() -> None:
    outcome = run("""
      %end: i64 = loop times 4 carry (%x: i64 = %cond) collect (%all: i64[4] <- %x) #go/0 {
        %y: i64 = a.step(%x, %x) #go/1
        yield %y
      }
      %one: i64 = b.step(%end, %end) #go/2
      %two: i64 = b.step(%all[3], %end) #go/3
      emit out <- %all
      emit out <- %end
    """)
    collected, end = outcome.emits["out"]
    # A carried value is collected as it is at the end of the pass.
    assert collected[3] == end
    assert outcome.calls["go/2"] == outcome.calls["go/3"] == 1


def test_carried_values_change_together() -> None:
    outcome = run("""
      %a: i64, %b: i64 = loop times 3 carry (%x: i64 = 1, %y: i64 = 2) #go/0 {
        yield %y, %x
      }
      emit out <- %a
      emit out <- %b
    """)
    assert outcome.emits["out"] == (2, 1)

"""What loops mean, from the text of a spec: how often bodies run, and what is seen behind them."""

import pytest

from mstarc.ir.interpret import Request, interpret
from tests.support.front_half import lowered

SPEC = """
mstar 1
model demo
request {
  out reply : text via tok.text
  opt steps : int = 4 in 0 .. 64
  opt inner : int = 3 in 0 .. 64
}
node tok : host {
  impl "demo:Tok"
  op text(token: i64) -> (piece: text)  stateful
}
node a : stateless {
  impl "demo:A"
  op run(x: i64, seed: i64) -> (y: i64)
}
node b : stateless {
  impl "demo:B"
  op run(y: i64, seed: i64) -> (x: i64)
}
walk answer(seed: i64) {
  BODY
}
machine main {
  state begin {
    run answer(7)
    next done
  }
}
"""

TWO_READERS = """
  loop steps times carry x = seed {
    y = a.run(x, seed)
    x = b.run(y, seed)
    emit reply <- x
  }
"""
NESTED = """
  loop steps times carry x = seed {
    loop inner times as i carry y = x { y = a.run(y, i) }
    x = b.run(y, seed)
  }
  emit reply <- x
"""
COUNTED = """
  loop steps times as i carry x = seed collect all = x { x = a.run(x, i) } until i + 1 == 2
  emit reply <- x
  emit reply <- all
  emit reply <- seed
"""


def outcome(body: str, **options: int) -> tuple[dict[str, int], tuple[object, ...]]:
    """How often each site ran, and what was emitted."""
    program = lowered(SPEC.replace("BODY", body))
    found = interpret(program, Request(options=options))
    assert found.error is None
    assert not found.stuck
    return dict(found.calls), found.emits["reply"]


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_every_reader_of_an_outer_value_runs_in_every_pass(steps: int) -> None:
    calls, emitted = outcome(TWO_READERS, steps=steps)
    assert (calls.get("answer/0", 0), calls.get("answer/1", 0)) == (steps, steps)
    assert len(emitted) == steps
    assert len(set(emitted)) == steps


@pytest.mark.parametrize(("steps", "inner"), [(0, 3), (1, 0), (3, 2), (2, 1)])
def test_nested_loops_multiply(steps: int, inner: int) -> None:
    calls, emitted = outcome(NESTED, steps=steps, inner=inner)
    assert calls.get("answer/0", 0) == steps * inner
    assert calls.get("answer/1", 0) == steps
    assert len(emitted) == 1


def test_until_ends_after_the_pass_that_it_holds_in() -> None:
    calls, emitted = outcome(COUNTED, steps=8)
    assert calls["answer/0"] == 2
    last, collected = emitted[0], emitted[1:-1]
    rows = collected[0] if isinstance(collected[0], tuple) else collected
    assert len(rows) == 2
    assert rows[-1] == last


def test_a_bound_below_what_until_asks_for_ends_the_loop() -> None:
    assert outcome(COUNTED, steps=1)[0]["answer/0"] == 1


@pytest.mark.parametrize("steps", [0, 5])
def test_while_is_tested_before_the_first_pass(steps: int) -> None:
    stops = "loop max steps carry x = seed while x != 7 { emit reply <- x  x = a.run(x, seed) }"
    assert outcome(stops, steps=steps) == ({"main.begin/run0": 1}, ())

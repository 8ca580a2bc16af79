"""Programs that are not sound are mistakes of ours, and the verifier says which stage's."""

import pytest

from mstarc.diagnostics import InternalError
from mstarc.ir.text import parse_program
from mstarc.ir.verify import verify

GOOD = """
program sound
input prompt : text
output out : text
option count : int = 3
stream s : i64 chunk fixed(1) marks half from main to other
node n : kv_cache {
  impl "m:N"
  context main
  op step(token: i64, row: f32[4]) -> (token: i64, row: f32[4]) attends causal writes main
}
walk go(%first: i64, %row: f32[4]) -> (token: i64) {
  %end: i64 = loop times $count index i carry (%x: i64 = %first) #go/0 {
    %y: i64, _ = n.step(%x, %row) on main #go/1
    send s <- %y
    yield %y
  }
  %z: i64 = when $count > 2 { yield %end } else { yield %first }
  return %z
}
machine main {
  register %t: i64
  register %r: f32[4]
  state begin {
    set %t: i64 = 1
    %t: i64 = run go(%t, %r) #main/0
    mark s.half
    next done if $count > 1 else begin
  }
}
machine other {
  state begin {
    each s as %c: i64 until half #other/0 { emit out <- %c }
    next done
  }
}
"""

BROKEN = [
    ("n.step(%x, %row)", "n.step(%x)", "is given 1 of 2 arguments"),
    ("n.step(%x, %row)", "n.step(%row, %row)", "is given `row` for `token`"),
    ("n.step(%x, %row)", "m.step(%x, %row)", "no node `m`"),
    ("n.step(%x, %row)", "n.stop(%x, %row)", "no op `n.stop`"),
    ("on main #go/1", "on side #go/1", "no context `n.side`"),
    ("%y: i64, _ =", "%y: i64 =", "gives 2 results, not 1"),
    ("%y: i64, _ =", "%x: i64, _ =", "value `x` is defined twice"),
    ("send s <- %y", "send s <- %later", "`later` is read before it is set"),
    ("send s <- %y", "send q <- %y", "no stream `q`"),
    ("send s <- %y", "send s <- ^j", "no loop here has index `j`"),
    ("send s <- %y", "emit q <- %y", "no output `q`"),
    ("yield %y\n", "yield %y, %x\n", "2 yields for 1 carries"),
    ("times $count index", "times $size index", "no option `size`"),
    ("return %z", "return %y", "`y` is read before it is set"),
    ("return %z", "return %z, %z", "returns 2 values"),
    ("#go/1", "#go/0", "site `go/0` is there twice"),
    ("{ yield %first }", "{ }", "a branch yields one value a result"),
    ("%t: i64 = run go(%t, %r)", "%q: i64 = run go(%t, %r)", "`q` is no register"),
    ("run go(%t, %r)", "run to(%t, %r)", "no walk `to`"),
    ("run go(%t, %r)", "run go(%t)", "is given 1 of 2 arguments"),
    ("mark s.half", "mark s.full", "no mark `s.full`"),
    ("else begin", "else start", "goes on to `start`"),
    ("until half #other", "until full #other", "no mark `s.full`"),
    ("from main to other", "from main to main", "leads back to its machine"),
    ("from main to other", "from main to third", "names machine `third`"),
    ("writes main\n", "writes side\n", "names context `side`"),
    ("node n : kv_cache", "node n : stateless", "keeps no contexts"),
    ("on main #go/1", "on main ranks [0] #go/1", "has ranks before placement"),
]


def test_a_sound_program_passes() -> None:
    verify(parse_program(GOOD), stage="test")


@pytest.mark.parametrize(("old", "new", "message"), BROKEN, ids=[row[2] for row in BROKEN])
def test_a_broken_invariant_names_the_stage(old: str, new: str, message: str) -> None:
    text = GOOD.replace(old, new)
    assert text != GOOD
    with pytest.raises(InternalError) as raised:
        verify(parse_program(text), stage="some-pass")
    assert message in str(raised.value)
    assert raised.value.stage == "some-pass"


PLACED = """
placement "cpu" by "automatic" requests 2 tokens 16 {
  device 0 "cpu" bytes 1000
  assign n ranks [0]
}
region "go.0" rank 0 walk go sites (#go/1) buckets (1, 2)
memory rank 0 weights "n" 10
pool rank 0 n pages 1 page_tokens 16 page_bytes 1
"""
DECISIONS = [
    ("", "", None),
    ("assign n ranks", "assign m ranks", "an assignment for every node and no other"),
    ("on main ranks [0] #go/1", "on main #go/1", "on ranks (), its node on (0,)"),
    ("on main ranks [0] #go/1", "on main ranks [1] #go/1", "on ranks (1,), its node on (0,)"),
    ("assign n ranks [0]", "assign n ranks [1]", "on a rank without a device"),
    ("buckets (1, 2)", "buckets (2, 1)", "buckets of region"),
    ("sites (#go/1)", "sites (#go/9)", "holds `go/9`"),
    ('region "go.0"', 'uncaptured #go/1 "why" region "go.0"', "is in a region or has a reason"),
    ('region "go.0" rank 0', 'region "go.0" rank 1', "crosses ranks at `go/1`"),
    ("pool rank 0 n", "pool rank 1 n", "has no pages on rank 0"),
    ('"n" 10', '"n" 1001', "rank 0 takes 1001 bytes of 1000"),
    ("region", "hop main #go/1 -> #q rank 0 -> 1 values () bytes 0 region", "that are not there"),
    ("region", "hop main #go/1 -> #go/1 rank 0 -> 0 values () bytes 0 region", "stays on its rank"),
    ("from main to other", "from main to other capacity 3", None),
]


@pytest.mark.parametrize(("old", "new", "message"), DECISIONS)
def test_decisions_hold_from_their_pass_on(old: str, new: str, message: str | None) -> None:
    placed = GOOD.replace("on main #go/1", "on main ranks [0] #go/1") + PLACED
    program = parse_program(placed.replace(old, new))
    if message is None:
        verify(program, stage="test")
        return
    with pytest.raises(InternalError) as raised:
        verify(program, stage="test")
    assert message in str(raised.value)

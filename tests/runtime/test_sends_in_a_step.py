"""Steps that send several items at once: a stream has room for all, and nobody waits for ever.

A thinker writes words and sends them to a talker, in requests that want it; a chunk is one word. A
loop of a known number of passes is one step, and so are sends that stand one behind the other.
"""

from pathlib import Path
from typing import Any

import pytest

from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.launch import run_until_done
from mstarc_runtime.loader import load_plan
from mstarc_runtime.request import Asked, prepare
from tests.runtime.rig import Collected
from tests.runtime.test_pulled_stretches import Lm
from tests.support.captured_toys import Tok, captured_ranks, compile_into

SPEC = """mstar 1
model hears
request {
  in  prompt : text
  opt twice  : bool = false
  out wrote  : text optional via tok.text
  out said   : text optional via tok.text
}
need wants wrote or wants said
node tok : host {
  impl "hears:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "hears:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
}
stream words : i64 chunk fixed(1)
walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }
walk write(first: i64, speak: flag) {
  LOOP
}
walk say(word: i64) { emit said <- word }
machine thinks {
  state begin { ids = tok.ids(prompt) token = run start(ids) next go }
  state go { run write(token, speak = wants said) next done }
}
machine talks when wants said {
  state go { each words as word run say(word) next done }
}
"""
PASS = "emit wrote <- token token = lm.step(token) send words <- token if speak"
A_LOOP = f"loop 24 times carry token = first {{ {PASS} }}"
ONE_BY_ONE = f"loop max 24 carry token = first while token != 7 {{ {PASS} }}"
LONG = """emit wrote <- first
  loop max 40 carry token = first while token != 7 {
    token = lm.step(token) ALSO send words <- token if speak
  }"""
DEPLOYMENT = """
model: hears
devices: 1xcpu
stretch: 4
node_groups:
  - node_names: [tok, lm]
    ranks: [0]
"""
THRICE = "emit wrote <- first " + 3 * "send words <- first if speak "


Request = tuple[str, bool, tuple[str, ...]]
"""A prompt, the option `twice`, and what is wanted."""


def texts(folder: Path, loop: str, *requests: Request) -> list[dict[str, Any]]:
    source = SourceFile(path="hears.mstar", text=SPEC.replace("LOOP", loop))
    deployment = SourceFile(path="cpu.yaml", text=DEPLOYMENT)
    plan = load_plan(compile_into(folder, source, CompileOptions(deployments=(deployment,))))
    ranks = captured_ranks(folder, "hears", {"tok": Tok, "lm": Lm})
    nothing = ranks.workers[0].snapshot()
    made = []
    for prompt, twice, wants in requests:
        made.append(Collected())
        asked = Asked(inputs={"prompt": prompt}, options={"twice": twice}, wants=wants)
        ranks.conductor.submit(prepare(plan, asked, seed=1), made[-1])
    run_until_done(ranks)
    for _ in range(20):
        ranks.turn()
    assert [listener.failure for listener in made] == [None] * len(made)
    assert ranks.workers[0].snapshot() == nothing
    return [listener.texts for listener in made]


@pytest.mark.parametrize("wants", [("wrote", "said"), ("wrote",)])
def test_a_loop_within_one_step_sends_what_it_sends_pass_by_pass(
    tmp_path: Path, wants: tuple[str, ...]
) -> None:
    """And all its masks are one: each pass sends if the request wants it."""
    (whole,) = texts(tmp_path / "one", A_LOOP, ("a lamp", False, wants))
    (passes,) = texts(tmp_path / "two", ONE_BY_ONE, ("a lamp", False, wants))
    assert whole == passes and len(whole["wrote"].split()) == 24


def test_sends_one_behind_the_other(tmp_path: Path) -> None:
    asked: list[Request] = [("a lamp", False, ("said",)), ("a lamp", False, ("wrote",))]
    spoken, unheard = texts(tmp_path, THRICE, *asked)
    assert len(spoken["said"].split()) == 3
    assert len(unheard["wrote"].split()) == 1


def test_a_pass_has_room_for_all_that_it_sends(tmp_path: Path) -> None:
    """Two items have room long before three have: what is not read yet is not written over."""
    asked: list[Request] = [
        ("hello", False, ("wrote", "said")),
        ("hm", True, ("wrote",)),
        ("a lamp", True, ("said",)),
        ("x", True, ("wrote", "said")),
    ]
    once = texts(tmp_path / "one", LONG.replace("ALSO", ""), *asked)
    more = texts(
        tmp_path / "more", LONG.replace("ALSO", 2 * "send words <- token if twice "), *asked
    )
    for (_, twice, _), single, several in zip(asked, once, more, strict=True):
        words = single.get("said", "").split()
        said = [word for word in words for _ in range(3 if twice else 1)]
        assert several.get("said", "").split() == said

"""What is called like something of Python, or of generated code itself, is served all the same."""

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
model any
request {
  in  INPUT  : text
  out OUTPUT : text via tok.text
  opt OPTION : int = 2 in 0 .. 9
}
node tok : host {
  impl "any:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node NODE : kv_cache {
  impl "any:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
}
stream STREAM : i64 chunk fixed(1)
walk start(ids: i64[T]) -> (VALUE: i64) { VALUE = NODE.prefill(ids) }
walk WALK(first: i64) {
  loop max OPTION carry VALUE = first while VALUE != 7 {
    send STREAM <- VALUE
    VALUE = NODE.step(VALUE)
  }
}
walk say(VALUE: i64) { emit OUTPUT <- VALUE }
machine thinks {
  state begin { ids = tok.ids(INPUT) VALUE = run start(ids) next go }
  state go { run WALK(VALUE) next done }
}
machine talks {
  state go { each STREAM as VALUE run say(VALUE) next done }
}
"""
PLACES = ["INPUT", "OUTPUT", "OPTION", "NODE", "STREAM", "WALK", "VALUE"]
NAMES = ["more", "class", "b", "batch", "range", "slot", "where", "int", "lambda", "options"]


def said(folder: Path, names: dict[str, str]) -> str:
    text = SPEC
    for place, name in names.items():
        text = text.replace(place, name)
    source = SourceFile(path="any.mstar", text=text)
    plan = load_plan(compile_into(folder, source, CompileOptions()))
    ranks = captured_ranks(folder, "any", {"tok": Tok, names["NODE"]: Lm}, stretch=0)
    listener = Collected()
    inputs: dict[str, Any] = {names["INPUT"]: "a lamp"}
    asked = Asked(inputs=inputs, options={names["OPTION"]: 5})
    ranks.conductor.submit(prepare(plan, asked, seed=1), listener)
    run_until_done(ranks)
    assert listener.failure is None
    return listener.texts[names["OUTPUT"]]


@pytest.mark.parametrize("number", range(len(PLACES)))
def test_any_name_is_served(tmp_path: Path, number: int) -> None:
    plain = {place: f"x{place.lower()}" for place in PLACES}
    turned = [*NAMES[number:], *NAMES[:number]]
    odd = dict(zip(PLACES, turned, strict=False))
    assert said(tmp_path / "odd", odd) == said(tmp_path / "plain", plain)

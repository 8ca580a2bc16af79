"""What a loop sends is read by some requests and not by others: as many passes a look as suit both.

A thinker writes words and sends them to a talker, in requests that want it. A chunk is one word, so
that a talker that listens is told of each; where nobody listens a look is for four of them.
"""

from pathlib import Path
from typing import Any

import pytest

from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.stretches import Stretches
from tests.runtime.rig import Collected
from tests.runtime.test_pulled_stretches import Lm
from tests.support.captured_toys import Tok, captured_ranks, compile_into

SPEC = """mstar 1
model hears
request {
  in  prompt : text
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
  loop max 24 carry token = first while token != 7 {
    emit wrote <- token
    token = lm.step(token)
    send words <- token if speak
  }
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
LOOP_IN_A_STEP = "loop 24 times carry token = first"
DEPLOYMENT = """
model: hears
devices: 1xcpu
stretch: 4
node_groups:
  - node_names: [tok, lm]
    ranks: [0]
"""


def compiled(folder: Path, text: str) -> Path:
    deployment = SourceFile(path="cpu.yaml", text=DEPLOYMENT)
    options = CompileOptions(deployments=(deployment,))
    return compile_into(folder, SourceFile(path="hears.mstar", text=text), options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("plan"), SPEC)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each stretch of the thinker."""
    found: list[int] = []
    launch = Stretches._launch

    def noted(self: Stretches, station: Station, group: Group, batch: StepBatch) -> None:
        if station.step.name.startswith("thinks"):
            found.append(batch.passes)
        launch(self, station, group, batch)

    monkeypatch.setattr(Stretches, "_launch", noted)
    return found


def ask(ranks: LocalRanks, folder: Path, *wants: str) -> Collected:
    listener = Collected()
    asked = Asked(inputs={"prompt": "a lamp"}, wants=wants)
    ranks.conductor.submit(prepare(load_plan(folder), asked, seed=1), listener)
    return listener


def texts(folder: Path, *requests: tuple[str, ...]) -> list[dict[str, Any]]:
    ranks = captured_ranks(folder, "hears", {"tok": Tok, "lm": Lm})
    nothing = ranks.workers[0].snapshot()
    made = [ask(ranks, folder, *wants) for wants in requests]
    run_until_done(ranks)
    for _ in range(20):
        ranks.turn()
    assert [listener.failure for listener in made] == [None] * len(made)
    assert ranks.workers[0].snapshot() == nothing
    return [listener.texts for listener in made]


def test_a_request_that_nobody_listens_to_is_looked_at_once_in_four(
    folder: Path, passes: list[int]
) -> None:
    texts(folder, ("wrote",))
    assert max(passes) == 4


def test_one_that_is_listened_to_is_looked_at_for_each_word(
    folder: Path, passes: list[int]
) -> None:
    texts(folder, ("wrote", "said"))
    assert set(passes) == {1}


def test_both_together_say_what_each_says_alone(folder: Path, passes: list[int]) -> None:
    together = texts(folder, ("wrote",), ("wrote", "said"))
    assert set(passes) == {1}
    assert together == texts(folder, ("wrote",)) + texts(folder, ("wrote", "said"))


def test_a_loop_within_one_step_sends_in_each_pass_if_the_request_wants_it(
    tmp_path: Path, folder: Path
) -> None:
    text = SPEC.replace("loop max 24 carry token = first while token != 7", LOOP_IN_A_STEP)
    assert text != SPEC
    made = texts(compiled(tmp_path, text), ("wrote", "said"), ("wrote",))
    whole = texts(folder, ("wrote", "said"))[0]
    assert made[0]["said"].split()[:5] == whole["said"].split()[:5]
    assert len(made[0]["said"].split()) == 24
    assert "said" not in made[1]

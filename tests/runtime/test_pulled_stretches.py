"""Passes that pull from a stream and renew a context, several at a look: the same bytes.

A talker hears what a thinker sends, a word a pass, and then nothing; within each pass a third node
begins anew and draws some codes. Fake captures: every operation is compared at each replay.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_plan
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.stretches import Stretch, Stretches
from tests.runtime.rig import Collected
from tests.support.captured_toys import Tok, captured_ranks, compile_into

SPEC = """mstar 1
model pulls
request {
  in  prompt : text
  out said   : text via tok.text
  opt length : int = 9 in 0 .. 40
  opt frames : int = 9 in 0 .. 60
  opt seed   : int = 0
}
node tok : host {
  impl "pulls:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "pulls:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
}
node talker : kv_cache {
  impl "pulls:Talker"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op begin(word: i64 or none) -> (code: i64)  attends causal  writes
  op step(code: i64, word: i64 or none) -> (next: i64)  attends causal  writes
}
node depth : kv_cache {
  impl "pulls:Depth"
  kv { layers = 1, heads = 1, head_dim = 8, length = 4 }
  sample { temperature = 0.9, seed = seed }
  op prime(code: i64)  attends causal  writes
  op step(code: i64, number: int) -> (next: i64)  attends causal  writes
}
stream words : i64 chunk fixed(1)
walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }
walk think(first: i64) {
  send words <- first
  loop max length carry token = first while token != 7 {
    token = lm.step(token)
    send words <- token
  }
}
walk open() -> (code: i64) {
  w = pull words or none
  code = talker.begin(w)
}
walk talk(code0: i64) {
  loop max frames carry code = code0 while code < 86 {
    w = pull words or none
    release depth.main
    depth.prime(code)
    loop 3 times as n carry c = code { c = depth.step(c, n) }
    emit said <- c
    code = talker.step(c, w)
  }
}
machine thinks {
  state begin {
    ids = tok.ids(prompt)
    token = run start(ids)
    next decode
  }
  state decode { run think(token) next done }
}
machine talks {
  state begin { code = run open() next decode }
  state decode { run talk(code) next done }
}
"""


class Lm(nn.Module):
    vocab_size = 1000

    @classmethod
    def build(cls, config: object, **_: object) -> "Lm":
        return cls()

    def prefill(self, ctx: Any, ids: Tensor) -> Tensor:
        return ids[ctx.last_rows] % 100 + 8

    def step(self, ctx: Any, token: Tensor) -> Tensor:
        return (token * 3 + ctx.positions * 5) % 97


class Talker(nn.Module):
    """Hears a word, or none, and stops when they say so."""

    vocab_size = 1000

    @classmethod
    def build(cls, config: object, **_: object) -> "Talker":
        return cls()

    def begin(self, ctx: Any, word: Maybe) -> Tensor:
        return word.value + 6

    def step(self, ctx: Any, code: Tensor, word: Maybe) -> Tensor:
        heard = torch.where(word.there, word.value, -1)
        return (code * 5 + ctx.positions * 3 + heard * 11) % 89


class Depth(nn.Module):
    """Draws by where its row stands."""

    vocab_size = 64

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(3)
        self.table = nn.Parameter(torch.randn(31, 64, generator=draw), requires_grad=False)

    @classmethod
    def build(cls, config: object, **_: object) -> "Depth":
        return cls()

    def prime(self, ctx: Any, code: Tensor) -> None:
        pass

    def step(self, ctx: Any, code: Tensor, number: int) -> Tensor:
        drawn: Tensor = ctx.sample(self.table[(code + number + 2 * ctx.positions) % 31])
        return drawn


ASKED = [(30, 40), (5, 25), (0, 6), (40, 30), (17, 0)]
"""Words of the thinker and frames of the talker at most, by request."""


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = SourceFile(path="pulls.mstar", text=SPEC)
    return compile_into(tmp_path_factory.mktemp("plan"), source, CompileOptions())


def ranks_of(folder: Path, stretch: int, *, check: bool = False) -> LocalRanks:
    kinds = {"tok": Tok, "lm": Lm, "talker": Talker, "depth": Depth}
    return captured_ranks(folder, "pulls", kinds, stretch=stretch, check=check)


def said(folder: Path, stretch: int, *, stagger: int = 1, check: bool = False) -> list[str]:
    ranks = ranks_of(folder, stretch, check=check)
    nothing = ranks.workers[0].snapshot()
    plan, made = load_plan(folder), []
    for number, (length, frames) in enumerate(ASKED):
        listener = Collected()
        options = {"length": length, "frames": frames, "seed": number}
        asked = Asked(inputs={"prompt": f"number {number}"}, options=options)
        ranks.conductor.submit(prepare(plan, asked, seed=number), listener)
        made.append(listener)
        for _ in range(stagger):
            ranks.turn()
    run_until_done(ranks)
    for _ in range(20):
        ranks.turn()
    assert [listener.failure for listener in made] == [None] * len(made)
    assert ranks.workers[0].snapshot() == nothing
    return [listener.texts.get("said", "") for listener in made]


@pytest.fixture(scope="module")
def plain(plan_folder: Path) -> list[str]:
    found = said(plan_folder, 0)
    counts = [len(text.split()) for text in found]
    assert counts[4] == 0
    assert max(counts) > 20, counts
    assert any(0 < made < most for made, (_, most) in zip(counts, ASKED, strict=True)), counts
    return found


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(passes, whether it was launched before a look) of each stretch of the talker."""
    found: list[tuple[int, bool]] = []
    launch = Stretches._launch

    def noted(self: Stretches, station: Station, group: Group, batch: StepBatch) -> None:
        if station.step.name.startswith("talks"):
            found.append((batch.passes, bool(station.away)))
        launch(self, station, group, batch)

    monkeypatch.setattr(Stretches, "_launch", noted)
    return found


@pytest.fixture
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is not done when the host first asks, nor when another machine had its turn."""
    asked: Counter[Stretch] = Counter()

    def has_come(self: Stretch) -> bool:
        asked[self] += 1
        return asked[self] > 3

    monkeypatch.setattr(Stretch, "has_come", has_come)


@pytest.mark.usefixtures("_late")
@pytest.mark.parametrize(("stretch", "stagger"), [(1, 1), (3, 0), (4, 6), (8, 4)])
def test_requests_say_the_same(
    plan_folder: Path, plain: list[str], stretch: int, stagger: int, launched: list[Any]
) -> None:
    assert said(plan_folder, stretch, stagger=stagger) == plain
    assert max(passes for passes, _ in launched) == stretch
    assert any(is_ahead for _, is_ahead in launched)


def test_a_body_that_is_captured_does_the_same_again(plan_folder: Path, plain: list[str]) -> None:
    """Every operation is compared at each replay: nothing depends on the pass."""
    assert said(plan_folder, 3, check=True) == plain


@pytest.mark.usefixtures("_late")
@pytest.mark.parametrize("turns", range(6, 26, 3))
def test_a_request_that_is_cancelled_leaves_nothing(plan_folder: Path, turns: int) -> None:
    ranks = ranks_of(plan_folder, 4)
    nothing = ranks.workers[0].snapshot()
    plan = load_plan(plan_folder)
    listeners = []
    for number in range(2):
        listeners.append(Collected())
        asked = Asked(inputs={"prompt": "hm"}, options={"length": 30, "frames": 40})
        gone = ranks.conductor.submit(prepare(plan, asked, seed=number), listeners[-1])
    for _ in range(turns):
        ranks.turn()
    ranks.conductor.cancel(gone)
    run_until_done(ranks)
    for _ in range(20):
        ranks.turn()
    assert [listener.events[-1] for listener in listeners] == ["finished", "cancelled"]
    assert ranks.workers[0].snapshot() == nothing

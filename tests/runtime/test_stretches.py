"""Several passes at a look of the host: the same bytes, and whoever waits does not wait longer.

Orpheus in tiny with fake captures. Its loop stops at a code that requests draw now and then: rows
stop within a stretch, and are in the next one, that was launched before anybody knew.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.fake import FakeGraphExecutor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.messages import Left
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.scheduler import Group, Station
from mstarc_runtime.stretches import Stretch, Stretches
from mstarc_runtime.transport.mailbox import Parcel
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import seal, write_plan
from tests.runtime.rig import Collected, nowhere
from tests.support.captured_toys import Tok, captured_ranks, compile_into

OFTEN = 301
"""A code that some of the requests draw before their bound."""
REQUESTS = [("hello", 44), ("a longer prompt", 30), ("hm", 41), ("four", 20)]


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_plan("orpheus", tmp_path_factory.mktemp("plan"))
    machines = folder / "machines.py"
    lines = [
        f"EOS = {OFTEN}" if line.startswith("EOS = ") else line
        for line in machines.read_text().splitlines()
    ]
    machines.write_text("\n".join(lines) + "\n")
    seal(folder)
    return folder


class Speakers:
    """Ranks of the plan, and requests of them."""

    def __init__(
        self, folder: Path, stretch: int, *, check: bool = False, placement: str = "cpu"
    ) -> None:
        self._plan = load_plan(folder)
        self.executor = FakeGraphExecutor(check=check)
        self.ranks = LocalRanks(
            self._plan,
            load_placement(self._plan, placement),
            settings=RunSettings(
                cache_dir=Path("/nonexistent"), threads=1, deterministic=False, buckets=(4,)
            ),
            progress=PlainProgress(nowhere()),
            make_pool=lambda wake: InlinePool(),
            extras=Extras(
                executor=self.executor,
                attention=lambda cache: TorchAttention(cache, row_by_row=False),
                stretch=stretch,
            ),
        )
        self.worker = self.ranks.workers[0]
        self._nothing = self.worker.snapshot()

    def ask(self, seed: int) -> tuple[int, Collected]:
        prompt, most = REQUESTS[seed]
        listener = Collected()
        asked = Asked(inputs={"prompt": prompt}, options={"temperature": 0.9, "max_tokens": most})
        return self.ranks.conductor.submit(
            prepare(self._plan, asked, seed=seed), listener
        ), listener

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.ranks.turn()

    def speak(self, seeds: Sequence[int], stagger: int) -> list[bytes]:
        made = []
        for seed in seeds:
            made.append(self.ask(seed)[1])
            self.turns(stagger)
        self.finish()
        assert [listener.events[-1] for listener in made] == ["finished"] * len(made)
        return [b"".join(listener.values.get("speech", [])) for listener in made]

    def finish(self) -> None:
        """All requests are over, and nothing of them is left."""
        run_until_done(self.ranks)
        self.turns(20)
        assert self.worker.snapshot() == self._nothing


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(passes, whether it was launched before a look) of each stretch."""
    found: list[tuple[int, bool]] = []
    launch = Stretches._launch

    def noted(self: Stretches, station: Station, group: Group, batch: StepBatch) -> None:
        found.append((batch.passes, bool(station.away)))
        launch(self, station, group, batch)

    monkeypatch.setattr(Stretches, "_launch", noted)
    return found


@pytest.fixture
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is not done when the host first asks."""
    asked: set[Stretch] = set()

    def has_come(self: Stretch) -> bool:
        was_asked = self in asked
        asked.add(self)
        return was_asked

    monkeypatch.setattr(Stretch, "has_come", has_come)


@pytest.fixture(scope="module")
def said(plan_folder: Path) -> list[bytes]:
    sounds = Speakers(plan_folder, 0).speak(range(4), stagger=3)
    windows = [len(sound) // (4 * 2048) for sound in sounds]
    most = [max(0, (count - 28) // 7 + 1) for _, count in REQUESTS]
    assert any(made < could for made, could in zip(windows, most, strict=True)), "somebody stops"
    assert any(windows)
    return sounds


@pytest.mark.usefixtures("_late")
@pytest.mark.parametrize(("stretch", "stagger"), [(1, 3), (2, 5), (4, 0), (7, 3)])
def test_requests_say_the_same(
    plan_folder: Path, said: list[bytes], stretch: int, stagger: int, launched: list[Any]
) -> None:
    speakers = Speakers(plan_folder, stretch)
    assert speakers.speak(range(4), stagger) == said
    assert not speakers.executor.eager_runs
    assert max(passes for passes, _ in launched) == stretch
    assert any(is_ahead for _, is_ahead in launched)


@pytest.mark.usefixtures("_late")
def test_items_for_another_rank_are_those_of_each_pass(
    plan_folder: Path, said: list[bytes], launched: list[tuple[int, bool]]
) -> None:
    speakers = Speakers(plan_folder, 4, placement="2xcpu")
    assert speakers.speak(range(4), stagger=3) == said
    assert max(launched) == (4, True)


def test_a_body_that_is_captured_with_its_end_does_the_same_again(
    plan_folder: Path, said: list[bytes]
) -> None:
    """Every operation is compared at each replay: nothing depends on the pass."""
    assert Speakers(plan_folder, 3, check=True).speak(range(2), stagger=0) == said[:2]


def test_a_stretch_ends_where_the_first_chunk_is_whole(
    plan_folder: Path, launched: list[tuple[int, bool]]
) -> None:
    speakers = Speakers(plan_folder, 4)
    _, listener = speakers.ask(2)
    while not listener.events:
        speakers.turns(1)
    # The prompt's step sends one code, so 27 passes are behind the first window; it was not made
    # to wait for others.
    assert sum(passes for passes, _ in launched[:7]) == 27
    assert len(launched) <= 8
    speakers.finish()


def test_the_host_looks_at_each_pass_while_a_request_is_on_its_way(
    plan_folder: Path, launched: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    speakers = Speakers(plan_folder, 4)
    speakers.ask(0)
    speakers.turns(6)
    assert launched[-1][0] > 1
    station = next(s for s in speakers.worker.scheduler.stations if s.step.name.endswith("encode"))
    station.running.add(3)  # as if its host code took long
    speakers.turns(4)
    launched.clear()
    speakers.turns(4)
    assert {passes for passes, _ in launched} == {1}
    station.running.clear()
    speakers.finish()


@pytest.mark.usefixtures("_late")
@pytest.mark.parametrize("turns", range(5, 14, 2))
def test_a_request_that_is_cancelled_leaves_nothing(
    plan_folder: Path, said: list[bytes], turns: int
) -> None:
    speakers = Speakers(plan_folder, 4)
    number, gone = speakers.ask(0)
    _, victim = speakers.ask(2)
    speakers.turns(turns)
    speakers.ranks.conductor.cancel(number)
    speakers.turns(3)
    assert gone.events[-1] == "cancelled", "within a look"
    speakers.finish()
    assert b"".join(victim.values["speech"]) == said[2]


# A loop that asks for the number of its pass, and emits in each

COUNTING = """mstar 1
model counts
request {
  in  prompt : text
  out said   : text via tok.text
  opt length : int = 9 in 0 .. 40
}
node tok : host {
  impl "counts:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "counts:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64, number: i64) -> (next: i64)  attends causal  writes
}
walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }
walk decode(first: i64) {
  loop max length as n carry token = first while token != 7 {
    emit said <- token
    token = lm.step(token, n)
  }
}
machine main {
  state begin {
    ids = tok.ids(prompt)
    token = run start(ids)
    next decode
  }
  state decode { run decode(token) next done }
}
"""


class Lm(nn.Module):
    """A token says where its row stands and which pass it is of: 7 comes when they say so."""

    vocab_size = 1000

    @classmethod
    def build(cls, config: object, **_: object) -> "Lm":
        return cls()

    def prefill(self, ctx: Any, ids: Tensor) -> Tensor:
        return ids[ctx.last_rows] % 100 + 8

    def step(self, ctx: Any, token: Tensor, number: Tensor) -> Tensor:
        following: Tensor = (token * 3 + ctx.positions * 5 + number) % 97
        return following


def counted(folder: Path, stretch: int) -> list[str]:
    source = SourceFile(path="counts.mstar", text=COUNTING)
    plan = load_plan(compile_into(folder, source, CompileOptions()))
    ranks = captured_ranks(folder, "counts", {"tok": Tok, "lm": Lm}, stretch=stretch)
    made = []
    for length in (30, 5, 0, 40, 17):
        listener = Collected()
        asked = Asked(inputs={"prompt": f"length {length}"}, options={"length": length})
        ranks.conductor.submit(prepare(plan, asked, seed=0), listener)
        made.append(listener)
        ranks.turn()
    run_until_done(ranks)
    assert [listener.failure for listener in made] == [None] * len(made)
    return [listener.texts.get("said", "") for listener in made]


@pytest.mark.usefixtures("_late")
def test_a_loop_that_asks_for_its_pass_and_emits_in_each(tmp_path: Path) -> None:
    plain = counted(tmp_path / "plain", 0)
    lengths = [len(text.split()) for text in plain]
    assert lengths[2] == 0, plain
    assert max(lengths) > 8, plain
    assert any(0 < made < most for made, most in zip(lengths, (30, 5, 0, 40, 17), strict=True))
    for stretch in (1, 3, 8):
        assert counted(tmp_path / str(stretch), stretch) == plain


@pytest.mark.usefixtures("_late")
def test_a_counted_loop_that_emits_in_each_pass_is_looked_at(
    tmp_path: Path, launched: list[tuple[int, bool]]
) -> None:
    """Also at a size that nobody has captured or run before, of which the first run tells that."""
    head = "loop max length as n carry token = first while token != 7"
    assert head in COUNTING
    spec = COUNTING.replace(head, "loop length times as n carry token = first")
    source = SourceFile(path="counts.mstar", text=spec)
    plan = load_plan(compile_into(tmp_path, source, CompileOptions()))
    ranks = captured_ranks(tmp_path, "counts", {"tok": Tok, "lm": Lm}, stretch=4)
    (worker,) = ranks.workers
    worker.stepper._batches.clear()
    worker.executor = FakeGraphExecutor()
    listener = Collected()
    inputs = Asked(inputs={"prompt": "a few"}, options={"length": 3})
    ranks.conductor.submit(prepare(plan, inputs, seed=0), listener)
    while not launched:
        ranks.turn()
    station = next(s for s in worker.scheduler.stations if s.away)
    assert launched == [(3, False)]
    assert not station.away[0].is_foregone
    run_until_done(ranks)
    assert len(listener.texts["said"].split()) == 3


def test_a_request_that_is_ready_is_let_in_behind_what_is_under_way(
    plan_folder: Path, launched: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device that is through with a stretch only when the next one is under way."""
    asked: Counter[Stretch] = Counter()

    def has_come(self: Stretch) -> bool:
        asked[self] += 1
        return len(self.station.away) > 1 or asked[self] > 6

    monkeypatch.setattr(Stretch, "has_come", has_come)
    speakers = Speakers(plan_folder, 2)
    speakers.ask(0)
    while (2, True) not in launched:
        speakers.turns(1)
    speakers.ask(2)
    station = next(s for s in speakers.worker.scheduler.stations if s.is_resident)
    while not station.ready:
        speakers.turns(1)
    # As if the group had been looked at since the request came.
    station.groups[0].generation = speakers.worker.generation
    launched.clear()
    while station.ready:
        speakers.turns(1)
    assert len(launched) <= 1
    assert station.groups[0].slots.size == 2
    speakers.finish()


def test_steps_go_on_however_many_messages_come(
    plan_folder: Path, launched: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    speakers = Speakers(plan_folder, 1)
    speakers.ask(0)
    while not launched:
        speakers.turns(1)
    launched.clear()
    with monkeypatch.context() as flooded:
        others = iter(range(5000))
        about_nobody = Parcel(Left(3, 77, "nobody"), ())
        mailbox, receive = speakers.worker.mailbox, speakers.worker.mailbox.receive
        flooded.setattr(
            mailbox, "receive", lambda: receive() if next(others, None) is None else about_nobody
        )
        speakers.turns(5)
        assert next(others, None) is not None, "all of them were taken in first"
    assert len(launched) >= 2
    speakers.finish()

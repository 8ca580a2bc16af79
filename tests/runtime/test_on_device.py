"""On a GPU: whatever the host does ahead or beside, a request says the same.

Orpheus small, for four requests and with graphs of one size, so that a row's bits are its own. What
is compared is its sound, and that is every code.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import mstarc_runtime.flights
import mstarc_runtime.stepping
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.ahead import Ahead
from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.flights import Flight, Flights
from mstarc_runtime.launch import LocalRanks, ask_ranks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.stretches import Stretch
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import Collected, nowhere
from tests.support.captured_toys import compile_into
from tests.support.shipped_specs import SPECS_BY_NAME

pytestmark = pytest.mark.gpu

PLACEMENT = "1xH200"
AT_ONCE = 4
# (prompt, most codes): some end before the first chunk, some in the middle of one.
REQUESTS = [("hello", 64), ("a longer prompt", 30), ("hm", 91), ("four", 20), ("five words", 77)]
# What the kernels are made for.
LM = {
    "hidden_size": 768,
    "intermediate_size": 1024,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 128,
}


def sizes() -> SourceFile:
    """The tiny ones, wide enough for the kernels."""
    spec = SPECS_BY_NAME["orpheus"]
    assert spec.sizes is not None
    given = yaml.safe_load(spec.sizes.text)
    given["config"] |= {"head_dim": LM["head_dim"]}
    given["weights"]["lm"]["config"] |= LM
    return SourceFile(path="sizes.yaml", text=yaml.safe_dump(given))


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    options = CompileOptions(placements=(PLACEMENT,), sizes=sizes())
    return compile_into(tmp_path_factory.mktemp("plan"), SPECS_BY_NAME["orpheus"].source, options)


class Run:
    """Ranks of the plan, and what each request has said."""

    def __init__(self, folder: Path, *, stretch: int = 0, **settings: Any) -> None:
        self._plan = load_plan(folder)
        self.ranks = LocalRanks(
            self._plan,
            load_placement(self._plan, PLACEMENT),
            settings=RunSettings(
                cache_dir=Path("/nonexistent"), threads=1, buckets=(AT_ONCE,), **settings
            ),
            progress=PlainProgress(nowhere()),
            make_pool=lambda wake: InlinePool(),
            extras=Extras(stretch=stretch),
        )

    def speak(self, stagger: int = 9) -> list[bytes]:
        """The sound of each request, `stagger` turns apart; its number is its seed."""
        made = []
        for seed, (prompt, most) in enumerate(REQUESTS):
            asked = Asked(inputs={"prompt": prompt}, options={"max_tokens": most})
            listener = Collected()
            self.ranks.conductor.submit(prepare(self._plan, asked, seed=seed), listener)
            made.append(listener)
            for _ in range(stagger):
                self.ranks.turn()
        run_until_done(self.ranks)
        assert [listener.events[-1] for listener in made] == ["finished"] * len(made)
        return [b"".join(listener.values.get("speech", [])) for listener in made]

    def graphs(self) -> int:
        """How many steps were graphs; none of a region was not."""
        tallies = [tally for told, _ in ask_ranks(self.ranks) for tally in told.tallies]
        assert all(not tally.reason for tally in tallies if tally.region), tallies
        return sum(tally.runs for tally in tallies if not tally.reason)


class Beside(Flights):
    """Counts what flew beside the main queue."""

    launched = 0

    def begin(self, flight: Flight) -> None:
        Beside.launched += 1
        super().begin(flight)


class Grounded(Flights):
    """Every step on the main queue."""

    def __init__(self, *made: Any) -> None:
        super().__init__(*made)
        self._streams.clear()


class Late(Flights):
    """What flies lands some turns after the device has done it."""

    def __init__(self, *made: Any) -> None:
        super().__init__(*made)
        self._asked: dict[int, int] = {}

    def landing(self) -> Iterator[Flight | Stretch]:
        for flight in list(self._under_way):
            asked = self._asked[id(flight)] = self._asked.get(id(flight), 0) + 1
            if asked > 5 and flight.has_come():
                del self._asked[id(flight)]
                yield self._end(flight)


class Never(Ahead):
    """Nothing is prepared ahead."""

    def __init__(self, stepper: Any, *, is_used: bool) -> None:
        super().__init__(stepper, is_used=False)


@pytest.fixture(scope="module")
def said(plan_folder: Path) -> list[bytes]:
    """What is said where nothing is ahead and nothing beside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mstarc_runtime.stepping, "Flights", Grounded)
        patch.setattr(mstarc_runtime.stepping, "Ahead", Never)
        run = Run(plan_folder)
        made = run.speak()
        assert run.graphs() > 100
        return made


def test_it_says_something_and_the_same_again(plan_folder: Path, said: list[bytes]) -> None:
    assert [len(sound) // (4 * 2048) for sound in said] == [
        max(0, (most - 28) // 7 + 1) for _, most in REQUESTS
    ], "nobody has stopped early: another seed shows less"
    assert len({sound for sound in said if sound}) == sum(bool(sound) for sound in said)


@pytest.mark.parametrize("flights", [Beside, Late])
def test_machines_beside_one_another_say_the_same(
    plan_folder: Path, said: list[bytes], flights: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mstarc_runtime.stepping, "Ahead", Never)
    monkeypatch.setattr(mstarc_runtime.stepping, "Flights", flights)
    Beside.launched = 0
    run = Run(plan_folder)
    assert run.speak() == said
    assert run.speak() == said, "the graphs again, on slots that others had"
    assert flights is Late or Beside.launched > 20


def test_steps_prepared_ahead_say_the_same(
    plan_folder: Path, said: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mstarc_runtime.stepping, "Flights", Grounded)
    assert Run(plan_folder).speak() == said


@pytest.mark.parametrize("stretch", [1, 2, 4, 7])
def test_stretches_say_the_same(
    plan_folder: Path, said: list[bytes], stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mstarc_runtime.stepping, "Flights", Grounded)
    assert Run(plan_folder, stretch=stretch).speak() == said


@pytest.mark.parametrize("stretch", [0, 1, 4])
def test_all_of_it_says_the_same(plan_folder: Path, said: list[bytes], stretch: int) -> None:
    run = Run(plan_folder, stretch=stretch)
    for stagger in (9, 4, 15):
        assert run.speak(stagger=stagger) == said

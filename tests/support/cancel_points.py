"""Requests that are cancelled at chosen moments of their life, and what is left of them.

A speech model on two processes: four slots, 32 pages. For each point a neighbour runs along, the
subject is cancelled at a moment of the point's phase, and one more request comes after it. Nothing
may be held that was not before, and neighbour and successor must say what they say alone.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.launch import ask_ranks
from mstarc_runtime.loader import LoadedPlan, load_placement, load_plan
from mstarc_runtime.process_ranks import ProcessRanks
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import Collected, nowhere
from tests.support.footprint import Footprint, footprint

ORPHEUS = ("specs/orpheus.mstar", "specs/tiny/orpheus.yaml")
SLOTS = 4
DEPLOYMENT = f"""
model: orpheus
devices: 2xcpu
max_seq_len: 512
max_concurrent_requests: {SLOTS}
kv_cache: {{max_num_pages: 32}}
node_groups:
  - {{node_names: [frontend, LLM], ranks: [0]}}
  - {{node_names: [snac_decoder], ranks: [1]}}
"""
PHASES = ("queued", "prefill", "decode", "chunk in flight", "producer done", "last flush")
# Tokens: two chunks of sound, and six.
BESIDE = 35
LONG = 63
_WAIT_S = 0.002


@dataclass
class Cancelling:
    """The ranks, what requests say when they are alone, and what is held without one."""

    ranks: ProcessRanks
    plan: LoadedPlan
    alone: dict[tuple[int, int], list[Any]] = field(default_factory=dict)
    held: Any = None
    footprint: Footprint | None = None
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    compared: int = 0

    def submit(self, seed: int, tokens: int) -> tuple[int, Collected]:
        asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": tokens}, seed=seed)
        made = Collected()
        return self.ranks.conductor.submit(prepare(self.plan, asked), made), made

    def turn(self) -> None:
        if not self.ranks.turn():
            self.ranks.wait(_WAIT_S)

    def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.turn()

    def finish(self) -> None:
        self.until(lambda: not self.ranks.conductor.pending)

    def holds(self) -> Any:
        """What requests hold in the conductor and on the ranks."""
        told = [json.loads(said.held) for said, _ in ask_ranks(self.ranks)]
        return self.ranks.conductor.snapshot(), told

    def check_same(self, seed: int, tokens: int, made: Collected) -> None:
        """Whether a request has said what it says alone."""
        assert made.failure is None, made.failure
        assert made.values["speech"] == self.alone[seed, tokens]
        self.compared += 1

    def begin(self) -> None:
        """Notes what a request says alone, and what is held when all threads are there."""
        for seed, tokens in (*((seed, BESIDE) for seed in range(3)), (0, LONG)):
            _, made = self.submit(seed, tokens)
            self.finish()
            assert made.failure is None, made.failure
            self.alone[seed, tokens] = made.values["speech"]
        for seed in range(2 * SLOTS):
            self.submit(seed % 3, BESIDE)
        self.finish()
        self.held, self.footprint = self.holds(), footprint(os.getpid())

    def cancel_at(self, phase: str, random: Random) -> None:
        """One point: the subject is cancelled in this phase, at a moment of chance."""
        others = [(seed % 3, BESIDE) for seed in range(SLOTS if phase == "queued" else 1)]
        beside = [(one, self.submit(*one)[1]) for one in others]
        number, made = self.submit(0, LONG)
        chunks = len(self.alone[0, LONG])
        request = self.ranks.conductor._by_number[number]

        def has(count: int) -> bool:
            return len(made.values.get("speech", ())) >= count or made.is_over

        match phase:
            case "queued":
                for _ in range(random.randrange(4)):
                    self.turn()
                assert request.slot < 0 or made.is_over
            case "prefill":
                for _ in range(random.randrange(3)):
                    self.turn()
            case "decode":
                wanted = random.randrange(1, chunks - 2)
                self.until(lambda: has(wanted))
            case "chunk in flight":
                wanted = random.randrange(1, chunks - 2)
                self.until(lambda: has(wanted))
                for _ in range(random.randrange(1, 12)):
                    self.turn()
            case "producer done":
                self.until(lambda: "speak" not in request.machines or made.is_over)
            case _:
                self.until(lambda: has(chunks))
        self.ranks.conductor.cancel(number)
        self.until(lambda: made.is_over)
        self.ended[phase, made.events[-1]] += 1
        assert made.events[-1] in ("cancelled", "finished")
        self.finish()
        for one, neighbour in beside:
            self.check_same(*one, neighbour)
        self.check_nothing_is_left()
        _, after = self.submit(1, BESIDE)
        self.finish()
        self.check_same(1, BESIDE, after)

    def cancel_in_a_row(self, count: int) -> None:
        """Requests that are cancelled as soon as they have come, one behind the other."""
        for index in range(count):
            number, _ = self.submit(index % 3, LONG)
            for _ in range(index):
                self.turn()
            self.ranks.conductor.cancel(number)
        self.finish()
        self.check_nothing_is_left()

    def check_nothing_is_left(self) -> None:
        assert self.holds() == self.held
        now = footprint(os.getpid())
        assert self.footprint is not None
        assert now.is_as(self.footprint), f"{self.footprint} became {now}"


@contextmanager
def cancelling(plan_folder: Path, cache: Path) -> Iterator[Cancelling]:
    """The plan of `DEPLOYMENT`, at work."""
    plan = load_plan(plan_folder)
    ranks = ProcessRanks(
        plan,
        load_placement(plan, "two"),
        settings=RunSettings(cache_dir=cache, threads=1),
        progress=PlainProgress(nowhere()),
        say=lambda text: None,
        start_timeout_s=120,
    )
    try:
        made = Cancelling(ranks, plan)
        made.begin()
        yield made
    finally:
        ranks.close()

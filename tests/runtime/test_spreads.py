"""A machine at several places at once: contexts on ranks of their own, forks that move out."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_runtime.plan_api import (
    Admission,
    Again,
    Batch,
    BranchStep,
    Builder,
    DoneStep,
    Enter,
    HopStep,
    HostStep,
    Job,
    JoinStep,
    Loop,
    Rank,
    SpreadStep,
    Step,
    Weights,
)
from mstarc_runtime.run_choices import HIGH_WATER_MARK
from tests.runtime.rig import Collected, Rig
from tests.runtime.test_ranks import Host, device
from tests.runtime.test_travel import CONFIG

SIDES = ("left", "right")


class Fan(Rank):
    """A prompt in three contexts, each going on by itself; their tokens meet after every pass."""

    pages = 160

    def build(self, b: Builder) -> None:
        self.host = b.host("host", impl="test:Host", weights=Weights(source=""))
        self.lm = b.kv_cache(
            "lm",
            impl="llama:Decoder",
            weights=Weights(source="random", config=CONFIG),
            layers=1,
            heads=2,
            head_dim=8,
            contexts=("main", *SIDES),
            cross={},
            masks={},
            writes={"prefill": "main", "step": "main"},
            samplers=(),
            op_sampler={},
            pages=self.pages,
            page_tokens=4,
        )
        self.ids = b.values("ids")
        self.tokens = {name: b.register(name, "i64", ()) for name in ("main", *SIDES)}
        b.loop(Loop(name="fan.turns", bound="turns", tested=False))
        b.loop(Loop(name="fan.inner", bound="inner", tested=False))

    def release(self, slot: int) -> None:
        self.host.release(slot)
        self.lm.release(slot)
        self.ids.release(slot)

    def encode(self, job: Job) -> None:
        self.ids.set(job, self.host.prompt(job.options["length"]))

    def read_prepare(self, b: Batch) -> None:
        self.lm.grow(b, self.ids.lengths(b))

    def read(self, b: Batch) -> None:
        token = self.lm.prefill(b, self.ids.pack(b))
        self.tokens["main"].put(b, token)
        self.tokens["left"].put(b, token + 1)
        self.tokens["right"].put(b, token + 2)

    def split_prepare(self, b: Batch) -> None:
        for side in SIDES:
            self.lm.fork(b, "main", side)

    def split(self, b: Batch) -> None:
        pass

    def mix(self, b: Batch) -> None:
        for name in ("main", *SIDES):
            b.emit(name, self.tokens[name].take(b))


def going_on(name: str) -> tuple[Any, Any]:
    """`prepare` and `run` of a step that goes on with one context."""

    def prepare(rank: Fan, b: Batch) -> None:
        rank.lm.grow(b, 1, name)

    def run(rank: Fan, b: Batch) -> None:
        token = rank.lm.step(b, rank.tokens[name].take(b), context=name)
        rank.tokens[name].put(b, (token + rank.tokens[name].take(b)) % 50)

    return prepare, run


def one_pass(number: int, name: str, then: Any) -> Step:
    prepare, run = going_on(name)
    return device(number, f"fan.{name}", run, then, prepare=prepare, nodes=("lm",))


def first_steps(then: Any) -> tuple[Step, ...]:
    return (
        HostStep(id=0, name="fan.encode", run=Fan.encode, node="host", then=1, line=1),
        device(1, "fan.read", Fan.read, 2, prepare=Fan.read_prepare, nodes=("lm",), rows="packed"),
        device(2, "fan.split", Fan.split, then, prepare=Fan.split_prepare, nodes=("lm",)),
    )


def last_steps(first: int) -> tuple[Step, ...]:
    again = Again("fan.turns", first=first, otherwise=10)
    return (
        device(9, "fan.mix", Fan.mix, again, emits=("main", *SIDES)),
        DoneStep(id=10, machine="fan"),
    )


def asked(rank: Fan, slot: int) -> bool:
    return bool(rank.options(slot)["wide"])


def alone() -> dict[int, tuple[Step, ...]]:
    """One rank: one branch after another."""
    steps = (
        *first_steps(Enter("fan.turns", first=4, otherwise=10)),
        one_pass(4, "main", 5),
        # The loop inside a branch.
        one_pass(5, "left", Enter("fan.inner", first=50, otherwise=6)),
        one_pass(50, "left", Again("fan.inner", first=50, otherwise=6)),
        BranchStep(id=6, name="fan.wide", test=asked, yes=60, no=9, line=1),
        one_pass(60, "right", 9),
        *last_steps(4),
    )
    return {0: steps}


def spread(main: int, left: int, right: int) -> dict[int, tuple[Step, ...]]:
    """Branches on ranks of their own; the spread and the join are on `main`."""

    def hop(number: int, rank: int, step: int, side: str) -> HopStep:
        contexts = (("lm", side),)
        return HopStep(id=number, rank=rank, step=step, values=(side,), contexts=contexts)

    def back(number: int, side: str) -> HopStep:
        return HopStep(id=number, rank=main, step=8, values=(side,))

    here = (
        *first_steps(Enter("fan.turns", first=3, otherwise=10)),
        SpreadStep(id=3, name="fan.all", branches=(4, 5, 6), line=1),
        one_pass(4, "main", 8),
        hop(5, left, 51, "left"),
        BranchStep(id=6, name="fan.wide", test=asked, yes=7, no=8, line=1),
        hop(7, right, 60, "right"),
        JoinStep(id=8, name="fan.met", arrivals=3, then=9, line=1),
        *last_steps(3),
    )
    leaves_left: tuple[Step, ...] = (
        one_pass(51, "left", Enter("fan.inner", first=50, otherwise=52)),
        one_pass(50, "left", Again("fan.inner", first=50, otherwise=52)),
        back(52, "left"),
    )
    leaves_right: tuple[Step, ...] = (one_pass(60, "right", 61), back(61, "right"))
    if left == right:
        return {main: here, left: (*leaves_left, *leaves_right)}
    return {main: here, left: leaves_left, right: leaves_right}


def make_rig(
    placed: dict[int, tuple[Step, ...]],
    slots: int = 4,
    pages: int = 160,
    high_water_mark: int = HIGH_WATER_MARK,
) -> Rig:
    fan = type("Sized", (Fan,), {"pages": pages})
    ranks: list[tuple[type[Rank], Sequence[Step]]] = [(fan, steps) for steps in placed.values()]
    return Rig(
        ranks,
        numbers=list(placed),
        machines={"fan": (next(iter(placed)), 0)},
        models={"test:Host": Host},
        outputs=dict.fromkeys(("main", *SIDES), "i64"),
        admit=lambda given: Admission(
            runs={"fan": True},
            bounds={"turns": given["turns"], "inner": given["inner"]},
            options={"length": given["length"], "wide": given["wide"]},
        ),
        slots=slots,
        max_rows=64,
        high_water_mark=high_water_mark,
    )


def ask(rig: Rig, count: int = 5) -> list[Collected]:
    made = [
        rig.submit(turns=index, inner=index % 3, length=2 + index, wide=index % 2 == 1)[1]
        for index in range(1, count + 1)
    ]
    rig.run()
    return made


@cache
def expected() -> list[Collected]:
    rig = make_rig(alone())
    made = ask(rig)
    rig.check_clean()
    for index, one in enumerate(made, 1):
        assert len(one.values["main"]) == index
        assert one.values["main"] != one.values["left"]
    return made


PLACES = [(0, 1, 2), (2, 3, 4), (1, 0, 2), (0, 1, 1), (5, 7, 6)]


@pytest.mark.parametrize("places", PLACES)
def test_branches_on_other_ranks_make_what_they_make_here(places: tuple[int, int, int]) -> None:
    rig = make_rig(spread(*places))
    made = ask(rig)
    assert [one.values for one in made] == [one.values for one in expected()]
    rig.check_clean()


def test_branches_run_at_once_and_their_contexts_stay_where_they_went() -> None:
    rig = make_rig(spread(0, 1, 2))
    rig.submit(turns=9, inner=0, length=3, wide=True)
    here, *others = rig.workers
    for _ in range(6):
        while not here.snapshot()["joins"]:
            here.turn()
        assert [worker.turn() for worker in others] == [True, True], "both have a branch to run"
        held = [worker.snapshot()["kv"]["lm"].contexts_in_use for worker in rig.workers]
        assert held == [1, 1, 1]
        here.turn()
    rig.run()
    rig.check_clean()


@settings(deadline=None, max_examples=40)
@given(turns=st.integers(0, 60), order=st.lists(st.sampled_from([0, 1, 2, 3]), max_size=60))
def test_cancelling_anywhere_leaves_nothing(turns: int, order: list[int]) -> None:
    rig = make_rig(spread(0, 1, 2), slots=2)
    _, kept = rig.submit(turns=1, inner=1, length=3, wide=True)
    number, cancelled = rig.submit(turns=4, inner=2, length=6, wide=True)
    parts: list[Any] = [*rig.workers, rig.conductor]
    for index in [*order, *([0, 1, 2, 3] * 20)][:turns]:
        parts[index].turn()
    was_over = cancelled.is_over
    rig.conductor.cancel(number)
    rig.run()
    assert was_over or cancelled.events[-1] == "cancelled"
    assert kept.values == expected()[0].values
    rig.check_clean()


def test_who_waits_for_pages_waits_for_requests_that_are_elsewhere() -> None:
    rig = make_rig(spread(0, 1, 2), pages=9)
    _, first = rig.submit(turns=2, inner=0, length=17, wide=False)
    here, *_ = rig.workers
    for _ in range(10):
        here.turn()
    assert here.snapshot()["joins"] == 1
    _, second = rig.submit(turns=2, inner=0, length=17, wide=False)
    for _ in range(1000):  # the first one's branch takes its time
        here.turn()
        rig.conductor.turn()
    assert not second.is_over
    rig.run()
    assert first.values == second.values
    assert first.events[-1] == second.events[-1] == "finished"
    rig.check_clean()


def test_a_branch_that_fails_ends_its_request_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = spread(0, 1, 2)

    def broken(rank: Fan, b: Batch) -> None:
        raise ValueError("a branch breaks")

    placed[2] = (
        device(60, "fan.right", broken, 61, prepare=going_on("right")[0], nodes=("lm",)),
        *placed[2][1:],
    )
    rig = make_rig(placed)
    _, narrow = rig.submit(turns=1, inner=1, length=3, wide=False)
    _, wide = rig.submit(turns=3, inner=1, length=3, wide=True)
    rig.run()
    assert narrow.events[-1] == "finished"
    assert wide.failure is not None
    assert "on rank 2" in wide.failure.notes[0]
    rig.check_clean()

"""A node on several ranks: its contexts go where the machine goes, and nothing stays behind."""

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
    Builder,
    DoneStep,
    Enter,
    HopStep,
    HostStep,
    Job,
    Loop,
    Rank,
    Sampler,
    Step,
    Weights,
)
from mstarc_runtime.run_choices import HIGH_WATER_MARK
from tests.runtime.rig import Collected, Rig
from tests.runtime.test_ranks import TINY, Host, device

LUGGAGE = (("lm", "main"), ("lm", "sampler:default"))
CONFIG = {**TINY, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}


class Talk(Rank):
    """Turns of reading a prompt and writing an answer, all in one context."""

    pages = 64
    group: tuple[int, ...] = ()

    def build(self, b: Builder) -> None:
        self.host = b.host("host", impl="test:Host", weights=Weights(source=""))
        self.lm = b.kv_cache(
            "lm",
            impl="llama:Decoder",
            weights=Weights(source="random", config=CONFIG),
            layers=1,
            heads=2,
            head_dim=8,
            contexts=("main",),
            cross={},
            masks={},
            writes={"prefill": "main", "step": "main"},
            samplers=(Sampler(temperature=0.9, repetition_penalty=1.4),),
            op_sampler={},
            pages=self.pages,
            page_tokens=4,
            group=self.group,
            tp=max(1, len(self.group)),
        )
        self.ids = b.values("ids")
        self.token = b.register("token", "i64", ())
        b.loop(Loop(name="talk.turns", bound="turns", tested=False))
        b.loop(Loop(name="talk.decode", bound="passes", tested=False))

    def release(self, slot: int) -> None:
        self.host.release(slot)
        self.lm.release(slot)
        self.ids.release(slot)

    def encode(self, job: Job) -> None:
        self.ids.set(job, self.host.prompt(job.options["length"]))

    def read_prepare(self, b: Batch) -> None:
        self.lm.grow(b, self.ids.lengths(b))

    def read(self, b: Batch) -> None:
        self.token.put(b, self.lm.prefill(b, self.ids.pack(b)))

    def write_prepare(self, b: Batch) -> None:
        self.lm.grow(b, 1)

    def write(self, b: Batch) -> None:
        b.emit("tokens", self.token.take(b))
        self.token.put(b, self.lm.step(b, self.token.take(b)))

    def tell(self, b: Batch) -> None:
        b.emit("last", self.token.take(b))


def steps(reads: int, writes: int, tells: int) -> dict[int, list[Step]]:
    """The steps of each rank, where turns are read, written and told on these."""
    made: dict[int, list[Step]] = {}
    ranks = {1: reads, 2: writes, 3: tells, 4: tells}
    hops = iter(range(10, 100))

    def to(rank: int, step: int) -> int:
        """A way to a step from a rank."""
        if ranks[step] == rank:
            return step
        number = next(hops)
        values = ("ids", "token") if step < 3 else ("token", "ids")
        made.setdefault(rank, []).append(
            HopStep(id=number, rank=ranks[step], step=step, values=values, contexts=LUGGAGE)
        )
        return number

    def there(rank: int, *found: Any) -> None:
        made.setdefault(rank, [])[:0] = found

    there(
        reads,
        HostStep(
            id=0,
            name="talk.encode",
            run=Talk.encode,
            node="host",
            then=Enter("talk.turns", first=1, otherwise=to(reads, 4)),
            line=1,
        ),
        device(
            1,
            "talk.read",
            Talk.read,
            Enter("talk.decode", first=to(reads, 2), otherwise=to(reads, 3)),
            prepare=Talk.read_prepare,
            nodes=("lm",),
            rows="packed",
        ),
    )
    there(
        writes,
        device(
            2,
            "talk.write",
            Talk.write,
            Again("talk.decode", first=2, otherwise=to(writes, 3)),
            prepare=Talk.write_prepare,
            nodes=("lm",),
            emits=("tokens",),
        ),
    )
    there(
        tells,
        device(
            3,
            "talk.tell",
            Talk.tell,
            Again("talk.turns", first=to(tells, 1), otherwise=4),
            emits=("last",),
        ),
        DoneStep(id=4, machine="talk"),
    )
    return made


def make_rig(
    reads: int = 0,
    writes: int = 0,
    tells: int = 0,
    *,
    pages: Sequence[int] = (64, 64, 64),
    groups: Sequence[tuple[int, ...]] = (),
    slots: int = 4,
    high_water_mark: int = HIGH_WATER_MARK,
    without: int | None = None,
) -> Rig:
    placed = steps(reads, writes, tells)
    leaders = {group[0]: group for group in groups}
    members = {rank: group for group in groups for rank in group}
    numbers = sorted({*placed, *members})
    ranks: list[tuple[type[Rank], Sequence[Step]]] = []
    for number in numbers:
        more = {"pages": pages[min(number, 2)], "group": members.get(number, ())}
        if number in placed:
            assert number not in members or number in leaders
            base = Bystander if number == without else Talk
            ranks.append((type("Placed", (base,), more), placed[number]))
        else:
            ranks.append((type("Follower", (Follower,), more), ()))
    return Rig(
        ranks,
        numbers=numbers,
        groups=groups,
        machines={"talk": (reads, 0)},
        models={"test:Host": Host},
        outputs={"tokens": "i64", "last": "i64"},
        admit=lambda asked: Admission(
            runs={"talk": True},
            bounds={"turns": asked["turns"], "passes": asked["passes"]},
            options={"length": asked["length"]},
        ),
        slots=slots,
        max_rows=64,
        high_water_mark=high_water_mark,
    )


class Follower(Talk):
    def build(self, b: Builder) -> None:
        class Quiet:
            def kv_cache(self, name: str, **given: Any) -> Any:
                return b.kv_cache(name, **given)

            def __getattr__(self, name: str) -> Any:
                return lambda *_, **__: None

        super().build(Quiet())

    def release(self, slot: int) -> None:
        self.lm.release(slot)


class Bystander(Talk):
    """A rank without the node, through which its contexts pass."""

    def build(self, b: Builder) -> None:
        class Quiet:
            def kv_cache(self, name: str, **given: Any) -> Any:
                return None

            def __getattr__(self, name: str) -> Any:
                return getattr(b, name)

        super().build(Quiet())

    def release(self, slot: int) -> None:
        self.host.release(slot)
        self.ids.release(slot)


def ask(rig: Rig, count: int = 4) -> list[Collected]:
    made = [
        rig.submit(turns=index % 3 + 1, passes=3 + index, length=2 + index, seed=index)[1]
        for index in range(count)
    ]
    rig.run()
    return made


@cache
def whole() -> list[Collected]:
    """The answers of one rank."""
    rig = make_rig()
    made = ask(rig)
    rig.check_clean()
    for index, one in enumerate(made):
        assert len(one.values["tokens"]) == (index % 3 + 1) * (3 + index)
    assert len({tuple(one.values["tokens"][:3]) for one in made}) > 1
    return made


@pytest.mark.parametrize("places", [(0, 1, 0), (0, 1, 1), (2, 3, 2), (1, 0, 1), (0, 1, 2)])
def test_contexts_go_there_and_back_and_change_no_token(places: tuple[int, int, int]) -> None:
    rig = make_rig(*places)
    made = ask(rig)
    assert [one.values for one in made] == [one.values for one in whole()]
    rig.check_clean()


@pytest.mark.parametrize(
    ("places", "groups"),
    [
        ((0, 1, 0), [(1, 2)]),
        ((0, 1, 0), [(0, 2)]),
        ((0, 1, 0), [(0, 2), (1, 3)]),
    ],
)
def test_parts_of_a_group_give_and_take_their_heads(
    places: tuple[int, int, int], groups: list[tuple[int, ...]]
) -> None:
    rig = make_rig(*places, groups=groups)
    with rig.following(*(rank for group in groups for rank in group[1:])):
        made = ask(rig)
        for _ in range(20):
            rig.turn()
    assert not rig.errors
    assert [one.values for one in made] == [one.values for one in whole()]
    rig.check_clean()


@pytest.mark.parametrize("places", [(0, 1, 2), (2, 0, 1)])
def test_contexts_pass_through_a_rank_without_their_node(places: tuple[int, int, int]) -> None:
    rig = make_rig(*places, without=places[2])
    made = ask(rig)
    assert [one.values for one in made] == [one.values for one in whole()]
    rig.check_clean()


def test_the_source_keeps_nothing() -> None:
    rig = make_rig(0, 1, 0)
    rig.submit(turns=1, passes=20, length=9)
    while not rig.workers[1].snapshot()["kv"]["lm"].rows:
        rig.turn()
    assert rig.workers[0].snapshot()["kv"] == rig.baseline[1]["kv"]
    rig.run()
    rig.check_clean()


def test_a_machine_waits_outside_until_there_are_pages() -> None:
    rig = make_rig(0, 1, 0, pages=(64, 5, 64))
    made = [rig.submit(turns=1, passes=8, length=10, seed=index)[1] for index in range(4)]
    waited = 0
    for _ in range(5000):
        rig.turn()
        waited = max(waited, rig.workers[1].snapshot()["waiting"])
        if not rig.conductor.pending:
            break
    assert waited == 3, "a prompt has 3 of 5 pages, and takes the others"
    assert all(one.events[-1] == "finished" for one in made)
    rig.check_clean()


def test_where_nobody_can_go_on_the_youngest_ends() -> None:
    rig = make_rig(0, 1, 0, pages=(64, 2, 64))
    _, small = rig.submit(turns=1, passes=2, length=3)
    _, large = rig.submit(turns=1, passes=2, length=30)
    rig.run()
    assert small.events[-1] == "finished"
    assert large.failure is not None
    assert large.failure.code in ("MS9305", "MS9309")
    rig.check_clean()


@settings(deadline=None, max_examples=40)
@given(
    turns=st.integers(0, 60),
    order=st.lists(st.sampled_from([0, 1, 2, 3]), max_size=60),
    pages=st.sampled_from([8, 64]),
)
def test_cancelling_anywhere_leaves_nothing(turns: int, order: list[int], pages: int) -> None:
    rig = make_rig(0, 1, 2, pages=(64, pages, 64), slots=3)
    _, kept = rig.submit(turns=1, passes=3, length=2, seed=0)
    number, cancelled = rig.submit(turns=3, passes=5, length=6, seed=1)
    parts: list[Any] = [*rig.workers, rig.conductor]
    for index in [*order, *([0, 1, 2, 3] * 20)][:turns]:
        parts[index].turn()
    was_over = cancelled.is_over
    rig.conductor.cancel(number)
    rig.run()
    assert was_over or cancelled.events[-1] == "cancelled"
    assert kept.values == whole()[0].values
    rig.check_clean()

"""Loops: bounds, tests on the device, nesting over steps, what they emit, collect and send."""

from collections.abc import Mapping
from typing import Any

import pytest
from torch import Tensor, nn

from mstarc_runtime.plan_api import (
    Admission,
    Again,
    Batch,
    Builder,
    DeviceStep,
    DoneStep,
    Enter,
    HostStep,
    Job,
    Loop,
    Policy,
    Rank,
    Weights,
)
from mstarc_schedule.batching import BatchPolicy
from tests.runtime.rig import Rig

RANDOM = Weights(source="random")
POLICIES = [BatchPolicy(deterministic=False), BatchPolicy(deterministic=True, tile_rows=3)]


class Counter(nn.Module):
    """Counts up; notes how many rows each call had."""

    calls: list[int] = []  # noqa: RUF012 - shared by a test's rank, cleared by the fixture

    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Counter":
        return cls()

    def next(self, ctx: Any, value: Tensor) -> Tensor:
        self.calls.append(ctx.batch)
        return value + 1

    def both(self, ctx: Any, value: Tensor, step: Tensor) -> Tensor:
        return value + step


class Text:
    """The conductor's `via` node: a token is a letter."""

    stateful = ("read",)

    def begin(self) -> list[str]:
        return []

    def read(self, state: list[str], token: int) -> str:
        state.append(chr(97 + token))
        return state[-1]

    def end(self, state: list[str]) -> str:
        return f"({len(state)})"


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    Counter.calls.clear()


class Counting(Rank):
    """count: begin -> loop while value != stop, at most `passes` -> done."""

    rank = 0

    def build(self, b: Builder) -> None:
        self.counter = b.stateless("counter", impl="test:Counter", weights=RANDOM)
        self.value = b.register("value", "i64", ())
        self.seen = b.collector("seen", "i64", (), capacity=16)
        b.loop(Loop(name="count.loop", bound="passes", tested=True))

    def release(self, slot: int) -> None:
        self.value.release(slot)
        self.seen.release(slot)

    def begin(self, b: Batch) -> None:
        value = b.option("first")
        self.value.put(b, value)
        self.seen.reset(b)
        more = b.more(value != b.option("stop"))
        b.emit("out", value, where=more)

    def step(self, b: Batch) -> None:
        value = self.value.take(b)
        self.seen.append(b, value)
        value = self.counter.next(b, value)
        self.value.put(b, value)
        more = b.more(value != b.option("stop"))
        b.emit("out", value, where=more)

    def tell(self, job: Job) -> None:
        job.emit("collected", self.seen.get(job))
        job.emit("last", int(self.value.get(job)))


COUNTING = (
    DeviceStep(
        id=0,
        name="count.begin",
        run=Counting.begin,
        nodes=(),
        rows="one",
        emits=("out",),
        then=Enter("count.loop", first=1, otherwise=2),
        line=1,
    ),
    DeviceStep(
        id=1,
        name="count.pass",
        run=Counting.step,
        nodes=("counter",),
        rows="one",
        emits=("out",),
        then=Again("count.loop", first=1, otherwise=2),
        line=2,
    ),
    HostStep(id=2, name="count.tell", run=Counting.tell, node="teller", then=3, line=3),
    DoneStep(id=3, machine="count"),
)


class Teller:
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Teller":
        return cls()


class CountingAndTelling(Counting):
    def build(self, b: Builder) -> None:
        super().build(b)
        self.teller = b.host("teller", impl="test:Teller", weights=Weights(source=""))


def counting_rig(policy: BatchPolicy, slots: int = 4) -> Rig:
    return Rig(
        [(CountingAndTelling, COUNTING)],
        machines={"count": (0, 0)},
        models={"test:Counter": Counter, "test:Teller": Teller},
        outputs={"out": "i64", "collected": "i64[N]", "last": "i64"},
        admit=lambda given: Admission(
            runs={"count": True},
            bounds={"passes": given["passes"]},
            options={"first": given["first"], "stop": given["stop"]},
        ),
        policy=policy,
        slots=slots,
    )


@pytest.mark.parametrize("policy", POLICIES, ids=["batched", "deterministic"])
@pytest.mark.parametrize(
    ("first", "stop", "passes", "expected"),
    [
        (0, 99, 4, [0, 1, 2, 3]),
        (0, 99, 1, [0]),
        (0, 99, 0, []),
        (0, 2, 9, [0, 1]),
        (5, 5, 9, []),
    ],
)
def test_a_loop_passes_as_often_as_its_bound_and_test_allow(
    policy: BatchPolicy, first: int, stop: int, passes: int, expected: list[int]
) -> None:
    rig = counting_rig(policy)
    _, made = rig.submit(first=first, stop=stop, passes=passes)
    rig.run()
    assert made.values.get("out", []) == expected
    assert made.values["collected"] == [expected]
    assert made.values["last"] == [first + len(expected)]
    assert len(Counter.calls) == len(expected)
    assert made.events[-1] == "finished"
    rig.check_clean()


@pytest.mark.parametrize("policy", POLICIES, ids=["batched", "deterministic"])
def test_requests_join_and_leave_a_loop_at_different_passes(policy: BatchPolicy) -> None:
    rig = counting_rig(policy)
    asked = [(0, 99, 7), (3, 5, 9), (0, 99, 1), (2, 2, 5), (10, 40, 16), (1, 99, 3)]
    made = []
    for first, stop, passes in asked:
        made.append(rig.submit(first=first, stop=stop, passes=passes)[1])
        rig.turn()
    rig.run()
    for (first, stop, passes), one in zip(asked, made, strict=True):
        assert one.values.get("out", []) == list(range(first, min(stop, first + passes)))
    rig.check_clean()


@pytest.mark.parametrize("tile_rows", [2, 3, 4])
def test_groups_of_different_sizes_take_turns(tile_rows: int) -> None:
    rig = counting_rig(BatchPolicy(deterministic=True, tile_rows=tile_rows), slots=7)
    made = [rig.submit(first=10 * n, stop=999, passes=12)[1] for n in range(7)]
    rig.run()
    for n, one in enumerate(made):
        assert one.values["out"] == list(range(10 * n, 10 * n + 12))
    rig.check_clean()


class Nested(Rank):
    """Two loops, the inner one's passes being steps: outer 3 times, inner as often as asked."""

    rank = 0

    def build(self, b: Builder) -> None:
        self.counter = b.stateless("counter", impl="test:Counter", weights=RANDOM)
        self.value = b.register("value", "i64", ())
        b.loop(Loop(name="nest.outer", bound="outer", tested=False))
        b.loop(Loop(name="nest.inner", bound="inner", tested=False))

    def release(self, slot: int) -> None:
        self.value.release(slot)

    def begin(self, b: Batch) -> None:
        self.value.put(b, b.full(0, "i64"))

    def outer(self, b: Batch) -> None:
        self.value.put(b, self.counter.both(b, self.value.take(b), b.full(100, "i64")))

    def inner(self, b: Batch) -> None:
        self.value.put(b, self.counter.next(b, self.value.take(b)))

    def after(self, b: Batch) -> None:
        b.emit("out", self.value.take(b))


def _step(number: int, name: str, run: Any, then: Any, emits: tuple[str, ...] = ()) -> DeviceStep:
    return DeviceStep(
        id=number, name=name, run=run, nodes=(), rows="one", emits=emits, then=then, line=number
    )


NESTED = (
    _step(0, "nest.begin", Nested.begin, Enter("nest.outer", first=1, otherwise=4)),
    _step(1, "nest.outer", Nested.outer, Enter("nest.inner", first=2, otherwise=3)),
    _step(2, "nest.inner", Nested.inner, Again("nest.inner", first=2, otherwise=3)),
    _step(3, "nest.after", Nested.after, Again("nest.outer", first=1, otherwise=4), emits=("out",)),
    DoneStep(id=4, machine="nest"),
)


@pytest.mark.parametrize("policy", POLICIES, ids=["batched", "deterministic"])
@pytest.mark.parametrize("inner", [0, 1, 5])
def test_nested_loops_begin_anew_in_every_outer_pass(policy: BatchPolicy, inner: int) -> None:
    rig = Rig(
        [(Nested, NESTED)],
        machines={"nest": (0, 0)},
        models={"test:Counter": Counter},
        outputs={"out": "i64"},
        admit=lambda given: Admission(
            runs={"nest": True}, bounds={"outer": 3, "inner": given["inner"]}, options={}
        ),
        policy=policy,
    )
    made = [rig.submit(inner=inner)[1] for _ in range(3)]
    rig.run()
    for one in made:
        assert one.values["out"] == [(100 + inner) * n for n in (1, 2, 3)]
    rig.check_clean()


class Talking(Rank):
    """A loop whose tokens go to a stream with a chunk policy and to a client as text."""

    rank = 0
    policy = Policy(kind="fixed", size=3, tail="short", empty="skip")

    def build(self, b: Builder) -> None:
        self.counter = b.stateless("counter", impl="test:Counter", weights=RANDOM)
        self.value = b.register("value", "i64", ())
        self.items = b.ring("items", dtype="i64", item=(), policy=self.policy, capacity=4)
        b.loop(Loop(name="talk.loop", bound="passes", tested=True))

    def release(self, slot: int) -> None:
        self.value.release(slot)
        self.items.release(slot)

    def begin(self, b: Batch) -> None:
        value = b.full(0, "i64")
        self.value.put(b, value)
        more = b.more(True)
        self.items.append(b, value, where=more)
        b.emit("said", value, where=more)

    def step(self, b: Batch) -> None:
        value = self.counter.next(b, self.value.take(b))
        self.value.put(b, value)
        more = b.more(True)
        self.items.append(b, value, where=more)
        b.emit("said", value, where=more)

    def hear(self, job: Job) -> None:
        job.emit("chunks", self.items.chunk(job))


TALKING = (
    DeviceStep(
        id=0,
        name="talk.begin",
        run=Talking.begin,
        nodes=(),
        rows="one",
        sends=(("items", 1),),
        emits=("said",),
        then=Enter("talk.loop", first=1, otherwise=2),
        line=1,
    ),
    DeviceStep(
        id=1,
        name="talk.pass",
        run=Talking.step,
        nodes=("counter",),
        rows="one",
        sends=(("items", 1),),
        emits=("said",),
        then=Again("talk.loop", first=1, otherwise=2),
        line=2,
    ),
    DoneStep(id=2, machine="talk", closes=("items",)),
    HostStep(
        id=3,
        name="hear.each",
        run=Talking.hear,
        node="hearer",
        reads=("items",),
        drained=4,
        emits=("chunks",),
        then=3,
        line=3,
    ),
    DoneStep(id=4, machine="hear"),
)


class TalkingAndHearing(Talking):
    def build(self, b: Builder) -> None:
        super().build(b)
        self.hearer = b.host("hearer", impl="test:Teller", weights=Weights(source=""))


@pytest.mark.parametrize("policy", POLICIES, ids=["batched", "deterministic"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9, 10])
def test_a_reader_gets_every_chunk_then_the_close(policy: BatchPolicy, count: int) -> None:
    rig = Rig(
        [(TalkingAndHearing, TALKING)],
        machines={"talk": (0, 0), "hear": (0, 3)},
        models={"test:Counter": Counter, "test:Teller": Teller},
        outputs={"said": "text", "chunks": "i64[N]"},
        admit=lambda given: Admission(
            runs={"talk": True, "hear": True}, bounds={"passes": given["passes"]}, options={}
        ),
        via={"said": ("text", "read", Text())},
        policy=policy,
    )
    made = [rig.submit(passes=count)[1] for _ in range(2)]
    rig.run()
    items = list(range(count))
    for one in made:
        chunks = one.values.get("chunks", [])
        assert chunks == [items[i : i + 3] for i in range(0, count, 3)]
        text = "".join(chr(97 + item) for item in items)
        assert one.texts.get("said", "") == (f"{text}({count})" if count else "")
        assert one.events.count("finished") == 1
        assert one.events[-1] == "finished"
    rig.check_clean()

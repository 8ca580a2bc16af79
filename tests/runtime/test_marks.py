"""Marks in streams, reads that stop at one, and pulls that may get nothing."""

import pytest
import torch

from mstarc_runtime.plan_api import (
    Admission,
    Again,
    Batch,
    Builder,
    Cut,
    DeviceStep,
    DoneStep,
    Enter,
    HostStep,
    Job,
    Loop,
    MarkStep,
    Policy,
    Rank,
    Weights,
)
from mstarc_runtime.streaming.chunks import Cutter
from tests.runtime.rig import Rig
from tests.runtime.test_chunk_cases import runtime_policy
from tests.runtime.test_loops import Teller
from tests.support.chunk_cases import CHUNK_CASES, ChunkCase

STREAM = Policy(kind="fixed", size=1)
MARKED = [case for case in CHUNK_CASES if case.marks]


@pytest.mark.parametrize("case", MARKED, ids=lambda c: f"{c.policy}-{c.tail}-{c.marks}")
def test_marks_end_chunks_as_worked_out_by_hand(case: ChunkCase) -> None:
    policy = runtime_policy(case)
    cutter = Cutter(policy)
    found = []

    def take() -> None:
        cutter.cut_by(policy)
        while cutter.is_ready:
            chunk = cutter.take()
            cutter.cut_by(policy)
            first = chunk.offset + chunk.context
            repeated = tuple(range(chunk.offset, first))
            found.append((repeated, tuple(range(first, first + chunk.fresh)), chunk.padding))

    for item in range(case.count + 1):
        for _ in range(case.marks.count(item)):
            cutter.mark("m")
            take()
        if item < case.count:
            cutter.put(1, [0] if item in case.stops else [])
            take()
    cutter.close()
    take()
    assert tuple(found) == case.chunks
    assert cutter.is_drained


class Thinker(Rank):
    """think: `before` items, a mark, `after` items, the close."""

    rank = 0

    def build(self, b: Builder) -> None:
        self.count = b.register("count", "i64", ())
        self.states = b.outbox("states", dtype="i64", item=(), rank=1)
        self.media = b.outbox("media", dtype="i64", item=(), rank=1)
        b.loop(Loop(name="think.before", bound="before", tested=False))
        b.loop(Loop(name="think.after", bound="after", tested=False))

    def release(self, slot: int) -> None:
        self.count.release(slot)

    def begin(self, b: Batch) -> None:
        self.count.put(b, b.full(0, "i64"))

    def send(self, b: Batch) -> None:
        count = self.count.take(b)
        self.states.append(b, count)
        self.media.append(b, count + 100)
        self.count.put(b, count + 1)


class Talker(Rank):
    """talk: chunks of at most 3 up to the mark, then items one by one, five times."""

    rank = 1

    def build(self, b: Builder) -> None:
        self.teller = b.host("teller", impl="test:Teller", weights=Weights(source=""))
        self.states = b.ring("states", dtype="i64", item=(), policy=STREAM, capacity=8)
        self.media = b.ring("media", dtype="i64", item=(), policy=STREAM, capacity=8)
        b.loop(Loop(name="talk.pulls", bound="pulls", tested=False))

    def release(self, slot: int) -> None:
        self.states.release(slot)
        self.media.release(slot)

    def hear(self, job: Job) -> None:
        chunk = self.states.chunk(job)
        job.emit("chunks", chunk)
        job.emit("equal", (self.media.chunk(job) - chunk).unique())

    def begin(self, b: Batch) -> None:
        """Nothing: the loop's first test is behind it."""

    def pull(self, b: Batch) -> None:
        item, medium = self.states.item_or_none(b), self.media.item_or_none(b)
        b.emit("equal", torch.where(medium.there, medium.value - item.value, 100)[:, None])
        b.emit("items", torch.where(item.there, item.value, -1))


def device(number: int, name: str, run: object, then: object, **more: object) -> DeviceStep:
    given = {"nodes": (), "rows": "one", "line": 1, **more}
    return DeviceStep(id=number, name=name, run=run, then=then, **given)  # type: ignore[arg-type]


THINK = (
    device(0, "think.begin", Thinker.begin, Enter("think.before", first=1, otherwise=2)),
    device(
        1,
        "think.early",
        Thinker.send,
        Again("think.before", first=1, otherwise=2),
        sends=(("states", 1), ("media", 1)),
    ),
    MarkStep(
        id=2, name="think.mark", streams=("states", "media"), mark="prompt_end", then=3, line=1
    ),
    device(3, "think.middle", Talker.begin, Enter("think.after", first=4, otherwise=5)),
    device(
        4,
        "think.late",
        Thinker.send,
        Again("think.after", first=4, otherwise=5),
        sends=(("states", 1), ("media", 1)),
    ),
    DoneStep(id=5, machine="think", closes=("states", "media")),
)
TALK = (
    HostStep(
        id=6,
        name="talk.hear",
        run=Talker.hear,
        node="teller",
        reads=("states", "media"),
        cut=Cut(policy=Policy(kind="until", size=3, tail="short"), until="prompt_end"),
        drained=7,
        then=6,
        line=1,
    ),
    device(7, "talk.begin", Talker.begin, Enter("talk.pulls", first=8, otherwise=9)),
    device(
        8,
        "talk.pull",
        Talker.pull,
        Again("talk.pulls", first=8, otherwise=9),
        pulls=("states", "media"),
        emits=("items",),
    ),
    DoneStep(id=9, machine="talk"),
)


@pytest.mark.parametrize("before", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("after", [0, 2, 6])
def test_a_read_stops_at_a_mark_and_pulls_go_on_behind_it(before: int, after: int) -> None:
    rig = Rig(
        [(Thinker, THINK), (Talker, TALK)],
        machines={"think": (0, 0), "talk": (1, 6)},
        models={"test:Teller": Teller},
        outputs={"chunks": "i64[N]", "items": "i64", "equal": "i64[N]"},
        admit=lambda asked: Admission(
            runs={"think": True, "talk": True},
            bounds={"before": asked["before"], "after": asked["after"], "pulls": 5},
            options={},
        ),
        streams={"states": (0, 1, 8), "media": (0, 1, 8)},
    )
    made = [rig.submit(before=before, after=after)[1] for _ in range(2)]
    rig.run()
    early, late = list(range(before)), list(range(before, before + after))
    for one in made:
        chunks = [early[i : i + 3] for i in range(0, before, 3)]
        assert one.values.get("chunks", []) == chunks
        assert one.values["items"] == [*late, *[-1] * 5][:5]
        assert all(equal == [100] for equal in one.values["equal"])
    rig.check_clean()

"""Several ranks: streams between them, machines that move, cancellation anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mstarc_runtime.plan_api import (
    Admission,
    Again,
    Batch,
    Builder,
    DeviceStep,
    DoneStep,
    Enter,
    HopStep,
    HostStep,
    Job,
    Loop,
    Pieces,
    Policy,
    Rank,
    Sampler,
    Step,
    Weights,
)
from mstarc_schedule.batching import BatchPolicy
from tests.runtime.rig import Collected, Rig

RANDOM = Weights(source="random")
TINY = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


class Adder(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Adder":
        return cls()

    def add(self, ctx: Any, value: Tensor) -> Tensor:
        return value + 1

    def total(self, ctx: Any, window: Tensor) -> Tensor:
        return window.sum(-1)


class Host:
    """Prompts of the length that is asked for; a state that must be given back."""

    stateful = ("prompt",)

    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Host":
        return cls()

    def begin(self) -> list[int]:
        return []

    def prompt(self, state: list[int], length: int) -> Tensor:
        state.append(length)
        return torch.arange(1, length + 1)


class Left(Rank):
    """speak: prompt, prefill, decode; half of every pass of walk is here."""

    rank = 0
    pages = 32
    samplers: tuple[Sampler, ...] = ()

    def build(self, b: Builder) -> None:
        self.host = b.host("host", impl="test:Host", weights=Weights(source=""))
        self.lm = b.kv_cache(
            "lm",
            impl="llama:Decoder",
            weights=Weights(source="random", config=TINY),
            layers=1,
            heads=1,
            head_dim=8,
            contexts=("main",),
            cross={},
            masks={},
            writes={"prefill": "main", "step": "main"},
            samplers=self.samplers,
            op_sampler={},
            pages=self.pages,
            page_tokens=4,
        )
        self.ids = b.values("ids")
        self.token = b.register("token", "i64", ())
        self.count = b.register("count", "i64", ())
        self.codes = b.outbox("codes", dtype="i64", item=(), rank=1)
        b.loop(Loop(name="speak.decode", bound="passes", tested=True))
        b.loop(Loop(name="walk.loop", bound="walks", tested=False))
        self.adder = b.stateless("adder", impl="test:Adder", weights=RANDOM)

    def release(self, slot: int) -> None:
        self.host.release(slot)
        self.lm.release(slot)
        self.ids.release(slot)
        self.codes.release(slot)

    def encode(self, job: Job) -> None:
        self.ids.set(job, self.host.prompt(job.options["length"]))

    def start_prepare(self, b: Batch) -> None:
        self.lm.grow(b, self.ids.lengths(b))

    def start(self, b: Batch) -> None:
        token = self.lm.prefill(b, self.ids.pack(b))
        self.token.put(b, token)
        more = b.more(True)
        self.codes.append(b, token, where=more)

    def start_piece(self, b: Batch) -> None:
        self.lm.prefill(b, self.ids.pack(b), partial=True)

    def decode_prepare(self, b: Batch) -> None:
        self.lm.grow(b, 1)

    def decode(self, b: Batch) -> None:
        token = self.lm.step(b, self.token.take(b))
        self.token.put(b, token)
        more = b.more(True)
        self.codes.append(b, token, where=more)
        b.emit("tokens", token, where=more)

    def walk_begin(self, b: Batch) -> None:
        self.count.put(b, b.full(0, "i64"))

    def walk_here(self, b: Batch) -> None:
        self.count.put(b, self.adder.add(b, self.count.take(b)))

    def walk_tell(self, b: Batch) -> None:
        b.emit("walked", self.count.take(b))


class Right(Rank):
    """listen reads what speak sends; the other half of every pass of walk."""

    rank = 1

    def build(self, b: Builder) -> None:
        self.codes = b.ring(
            "codes",
            dtype="i64",
            item=(),
            policy=Policy(kind="sliding", size=4, stride=2, tail="pad", pad=0),
            capacity=6,
        )
        self.adder = b.stateless("adder", impl="test:Adder", weights=RANDOM)
        self.count = b.register("count", "i64", ())

    def release(self, slot: int) -> None:
        self.codes.release(slot)

    def listen(self, b: Batch) -> None:
        window = self.codes.window(b)
        b.emit("windows", window)
        b.emit("sums", self.adder.total(b, window))

    def walk_there(self, b: Batch) -> None:
        self.count.put(b, self.adder.add(b, self.count.take(b)))


def device(number: int, name: str, run: Any, then: Any, **more: Any) -> DeviceStep:
    given = {"rows": "one", "nodes": (), "line": number, **more}
    return DeviceStep(id=number, name=name, run=run, then=then, **given)


LEFT = (
    HostStep(id=0, name="speak.encode", run=Left.encode, node="host", then=1, line=1),
    device(
        1,
        "speak.start",
        Left.start,
        Enter("speak.decode", first=2, otherwise=3),
        prepare=Left.start_prepare,
        nodes=("lm",),
        rows="packed",
        sends=(("codes", 1),),
        pieces=Pieces(run=Left.start_piece, of=("ids",), node="lm", context="main", op="prefill"),
    ),
    device(
        2,
        "speak.decode",
        Left.decode,
        Again("speak.decode", first=2, otherwise=3),
        prepare=Left.decode_prepare,
        nodes=("lm",),
        sends=(("codes", 1),),
        emits=("tokens",),
    ),
    DoneStep(id=3, machine="speak", closes=("codes",)),
    device(4, "walk.begin", Left.walk_begin, Enter("walk.loop", first=5, otherwise=8)),
    device(5, "walk.here", Left.walk_here, 6),
    HopStep(id=6, rank=1, step=10, values=("count",)),
    device(7, "walk.back", Left.walk_here, Again("walk.loop", first=5, otherwise=8)),
    device(8, "walk.tell", Left.walk_tell, 9, emits=("walked",)),
    DoneStep(id=9, machine="walk"),
)
RIGHT = (
    device(10, "walk.there", Right.walk_there, 11),
    HopStep(id=11, rank=0, step=7, values=("count",)),
    device(
        12,
        "listen.each",
        Right.listen,
        12,
        rows="shaped",
        reads=("codes",),
        drained=13,
        emits=("windows", "sums"),
    ),
    DoneStep(id=13, machine="listen"),
)


def shared(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, those that read prompts sharing their pages."""
    return tuple(
        replace(step, pieces=replace(step.pieces, shared=True))
        if isinstance(step, DeviceStep) and step.pieces is not None
        else step
        for step in steps
    )


MACHINES = {"speak": (0, 0), "walk": (0, 4), "listen": (1, 12)}


def make_rig(
    slots: int = 4,
    policy: BatchPolicy | None = None,
    left: type[Left] = Left,
    *,
    is_shared: bool = False,
) -> Rig:
    return Rig(
        [(left, shared(LEFT) if is_shared else LEFT), (Right, RIGHT)],
        machines=MACHINES,
        models={"test:Host": Host, "test:Adder": Adder},
        outputs={"tokens": "i64", "windows": "i64[4]", "sums": "i64", "walked": "i64"},
        admit=lambda asked: Admission(
            runs=dict.fromkeys(MACHINES, True),
            bounds={"passes": asked["passes"], "walks": asked["walks"]},
            options={"length": asked["length"]},
        ),
        streams={"codes": (0, 1, 6)},
        slots=slots,
        max_rows=64,
        policy=policy,
    )


def check_answer(made: Collected, passes: int, walks: int) -> None:
    assert made.events.count("finished") == 1
    assert made.values["walked"] == [3 * walks]
    tokens = made.values.get("tokens", [])
    assert len(tokens) == max(0, passes - 1)
    windows = made.values.get("windows", [])
    full = max(0, (passes - 4) // 2 + 1)
    covered = 2 * (full - 1) + 4 if full else 0
    assert len(windows) == full + (1 if passes > covered else 0)
    for index, window in enumerate(windows):
        rest = tokens[2 * index - 1 if index else 0 :][: 4 if index else 3]
        assert (window if index else window[1:])[: len(rest)] == rest
    assert made.values.get("sums", []) == [sum(window) for window in windows]


@pytest.mark.parametrize("passes", [0, 1, 3, 4, 5, 6, 7, 20])
def test_streams_and_machines_cross_ranks(passes: int) -> None:
    rig = make_rig()
    made = [rig.submit(passes=passes, walks=n, length=3 + n)[1] for n in range(3)]
    rig.run()
    for walks, one in enumerate(made):
        check_answer(one, passes, walks)
    rig.check_clean()


def test_a_full_stream_holds_its_producer_back() -> None:
    rig = make_rig()
    _, made = rig.submit(passes=30, walks=0, length=2)
    left, right = rig.workers
    for _ in range(200):  # the reader's rank does not move at all
        left.turn()
        rig.conductor.turn()
    assert len(made.values["tokens"]) == 5, "six items fit, the first being the prompt's token"
    assert right.snapshot()["rows"] == 0
    rig.run()
    check_answer(made, 30, 0)
    rig.check_clean()


@cache
def undisturbed() -> Collected:
    """What the request that is not cancelled makes alone."""
    rig = make_rig(slots=2)
    _, made = rig.submit(passes=9, walks=2, length=4)
    rig.run()
    return made


@settings(deadline=None, max_examples=50)
@given(
    turns=st.integers(0, 60),
    order=st.lists(st.sampled_from([0, 1, 2]), max_size=60),
    passes=st.integers(0, 12),
)
def test_cancelling_anywhere_leaves_nothing_and_touches_nobody(
    turns: int, order: list[int], passes: int
) -> None:
    rig = make_rig(slots=2)
    _, victim = rig.submit(passes=9, walks=2, length=4)
    number, cancelled = rig.submit(passes=passes, walks=3, length=6)
    parts: list[Any] = [*rig.workers, rig.conductor]
    for index in [*order, *([0, 1, 2] * 20)][:turns]:
        parts[index].turn()
    was_over = cancelled.is_over
    rig.conductor.cancel(number)
    rig.run()
    assert was_over or cancelled.events[-1] == "cancelled"
    assert victim.values == undisturbed().values
    rig.check_clean()
    _, after = rig.submit(passes=5, walks=1, length=3)
    rig.run()
    check_answer(after, 5, 1)
    rig.check_clean()


def test_more_cancels_than_slots_leave_every_slot_free() -> None:
    rig = make_rig(slots=4)
    for _ in range(5):
        number, made = rig.submit(passes=10, walks=2, length=5)
        for _ in range(4):
            rig.turn()
        rig.conductor.cancel(number)
        rig.run()
        assert made.events[-1] == "cancelled"
        rig.check_clean()


def test_a_queued_request_can_be_cancelled() -> None:
    rig = make_rig(slots=1)
    _, first = rig.submit(passes=4, walks=1, length=3)
    number, queued = rig.submit(passes=4, walks=1, length=3)
    rig.conductor.cancel(number)
    assert queued.events == ["cancelled"]
    rig.run()
    check_answer(first, 4, 1)
    rig.check_clean()

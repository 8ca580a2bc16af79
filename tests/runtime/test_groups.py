"""A node whose parts are on several ranks: the leader's steps, and the others that serve."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mstarc_runtime import grouping
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import pack_value, unpack_value
from mstarc_runtime.grouping import GroupLost
from mstarc_runtime.layers.shard import WHOLE, Shard
from mstarc_runtime.plan_api import Admission, Builder, DeviceStep, Maybe, Rank, Step, Weights
from tests.runtime.rig import Collected, Rig
from tests.runtime.test_ranks import (
    LEFT,
    MACHINES,
    RIGHT,
    Adder,
    Host,
    Left,
    Right,
    check_answer,
)


class Halved(nn.Module):
    """Adds one: each part does its share of the work. Can be told to fail."""

    fails: Mapping[int, int] = {}

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.shard = shard

    @classmethod
    def build(cls, config: Mapping[str, Any], *, shard: Shard = WHOLE, **_: Any) -> "Halved":
        return cls(shard)

    def add(self, ctx: Any, value: Tensor) -> Tensor:
        if self.fails.get(self.shard.index) == int(value.max()):
            raise ValueError(f"part {self.shard.index} can't add to {int(value.max())}")
        half = self.shard.sum(torch.full_like(value, 1) * 6 // self.shard.count)
        return value + half // 6

    def total(self, ctx: Any, window: Tensor) -> Tensor:
        return window.sum(-1)


class Grouped:
    """A builder that places `lm` and `adder` on ranks 0, 2, …"""

    def __init__(self, builder: Builder, parts: int) -> None:
        self._builder = builder
        self._group: dict[str, Any] = {"group": (0, *range(2, parts + 1)), "tp": parts}

    def kv_cache(self, name: str, **given: Any) -> Any:
        return self._builder.kv_cache(name, **given, **self._group)

    def stateless(self, name: str, **given: Any) -> Any:
        return self._builder.stateless(name, **given, **self._group)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)


def make_rig(
    parts: int, slots: int = 4, copies: Mapping[int, int] | None = None, left: type[Left] = Left
) -> Rig:
    class Leader(left):  # type: ignore[misc, valid-type]
        def build(self, b: Builder) -> None:
            super().build(Grouped(b, parts))

    class Follower(Rank):
        pages = left.pages
        samplers = left.samplers

        def build(self, b: Builder) -> None:
            class Quiet(Grouped):
                def __getattr__(self, name: str) -> Any:
                    return lambda *_, **__: None

            Left.build(self, Quiet(b, parts))  # type: ignore[arg-type]

        def release(self, slot: int) -> None:
            self.lm.release(slot)  # type: ignore[attr-defined]

    ranks: list[tuple[type[Rank], Sequence[Step]]] = [(Leader, LEFT), (Right, RIGHT)]
    ranks += [(Follower, ())] * (parts - 1)
    return Rig(
        ranks,
        groups=[(0, *range(2, parts + 1))],
        copies=copies,
        machines=MACHINES,
        models={"test:Host": Host, "test:Adder": Adder if parts == 1 else Halved},
        outputs={"tokens": "i64", "windows": "i64[4]", "sums": "i64", "walked": "i64"},
        admit=lambda asked: Admission(
            runs=dict.fromkeys(MACHINES, True),
            bounds={"passes": asked["passes"], "walks": asked["walks"]},
            options={"length": asked["length"]},
        ),
        streams={"codes": (0, 1, 6)},
        slots=slots,
        max_rows=64,
    )


def answers(rig: Rig, count: int = 5) -> list[Collected]:
    made = [
        rig.submit(passes=5 + 4 * index, walks=index % 3, length=3 + index)[1]
        for index in range(count)
    ]
    rig.run()
    return made


def test_parts_of_a_node_give_the_tokens_of_the_whole() -> None:
    expected = answers(make_rig(1))
    rig = make_rig(2)
    with rig.following(2):
        made = answers(rig)
        for _ in range(20):
            rig.turn()
    assert not rig.errors
    for index, (one, other) in enumerate(zip(expected, made, strict=True)):
        check_answer(other, 5 + 4 * index, index % 3)
        assert other.values == one.values
    rig.check_clean()


def test_parts_of_a_node_lend_their_pages_together() -> None:
    class Narrow(Left):
        pages = 9

    expected = answers(make_rig(1))
    rig = make_rig(2, left=Narrow)
    with rig.following(2):
        made = answers(rig)
        for _ in range(20):
            rig.turn()
    assert not rig.errors
    assert [one.values for one in made] == [one.values for one in expected]
    moves = rig.workers[0].preempter.moves
    assert moves.set_aside == moves.brought_back > 0
    rig.check_clean()


def test_each_copy_of_a_group_has_parts_of_its_own() -> None:
    expected = answers(make_rig(1))
    rig = make_rig(2, copies={0: 2, 2: 2})
    with rig.following(3, 4):
        made = answers(rig)
        for _ in range(20):
            rig.turn()
    assert not rig.errors
    assert [one.values for one in made] == [one.values for one in expected]
    rig.check_clean()


def test_a_row_that_fails_on_all_parts_ends_its_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Halved, "fails", {0: 3, 1: 3})
    rig = make_rig(2)
    with rig.following(2):
        made = answers(rig)
        for _ in range(20):
            rig.turn()
    assert not rig.errors
    for index, one in enumerate(made):
        if index % 3 < 2:
            check_answer(one, 5 + 4 * index, index % 3)
            continue
        assert one.failure is not None
        assert one.failure.code == "MS9304"
        assert "can't add to 3" in one.failure.message
    rig.check_clean()


@pytest.mark.parametrize("index", [0, 1])
def test_a_part_that_fails_alone_is_named(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Halved, "fails", {index: 3})
    monkeypatch.setattr(grouping, "_SETTLE_S", 0.3)
    rig = make_rig(2)
    rig.submit(passes=3, walks=2, length=3)
    with pytest.raises(GroupLost) as caught, rig.following(2):
        rig.run()
    assert caught.value.code == "MS9311"
    if index == 0:
        assert "rank 2, which holds a part of `adder`" in caught.value.message
    else:
        (error,) = rig.errors
        assert isinstance(error, GroupLost)
        assert "rank 2 failed in `adder.add`: ValueError: part 1 can't" in error.message


def test_cancelling_anywhere_leaves_nothing_on_any_part() -> None:
    expected = answers(make_rig(1), 1)[0]
    for turns in range(0, 40, 4):
        rig = make_rig(2, slots=2)
        with rig.following(2):
            _, kept = rig.submit(passes=5, walks=0, length=3)
            number, cancelled = rig.submit(passes=9, walks=2, length=5)
            for _ in range(turns):
                rig.turn()
            was_over = cancelled.is_over
            rig.conductor.cancel(number)
            rig.run()
            for _ in range(20):
                rig.turn()
        assert was_over or cancelled.events[-1] == "cancelled"
        assert kept.values == expected.values
        rig.check_clean()


def test_a_node_that_takes_no_part_is_refused() -> None:
    class Whole(Rank):
        def build(self, b: Builder) -> None:
            b.stateless(
                "adder", impl="test:Whole", weights=Weights(source="random"), group=(0, 1), tp=2
            )

    for sp in (1, 2):
        with pytest.raises(RuntimeFailure) as caught:
            Rig(
                [(Whole if sp == 1 else Sequenced, ()), (Whole, ())],
                groups=[(0, 1)],
                machines={},
                models={"test:Whole": Adder, "test:Halved": Halved},
                outputs={},
                admit=lambda asked: Admission(runs={}, bounds={}, options={}),
            )
        assert caught.value.code == "MS9012"
        assert ("tp_size" if sp == 1 else "sp_size") in caught.value.message


class Sequenced(Rank):
    def build(self, b: Builder) -> None:
        b.stateless(
            "adder", impl="test:Halved", weights=Weights(source="random"), group=(0, 1), sp=2
        )


def test_calls_are_in_graphs_where_the_other_parts_record_theirs() -> None:
    rig = make_rig(2)
    leader, follower = rig.workers[0], rig.workers[2]
    given: Any = {"id": 0, "name": "a.pass", "run": print, "rows": "one", "then": 0, "line": 1}
    steps = {name: DeviceStep(nodes=(name,), **given) for name in ("lm", "adder", "other")}
    found = {name: leader.groups.can_capture(step) for name, step in steps.items()}
    # A node without state is told of each call.
    assert found == {"lm": True, "adder": False, "other": True}
    assert all(follower.groups.can_capture(step) for step in steps.values())
    leader.groups.serves |= follower.groups.serves
    assert not leader.groups.can_capture(steps["lm"])


def test_what_two_leaders_tell_is_done_on_two_queues() -> None:
    groups = {"left": (0, 2), "right": (1, 2), "again": (0, 2)}

    def rank(number: int) -> type[Rank]:
        class Held(Rank):
            def build(self, b: Builder) -> None:
                for name, group in groups.items():
                    if number in group:
                        weights = Weights(source="random")
                        b.stateless(name, impl="test:Halved", weights=weights, group=group, tp=2)

        return Held

    rig = Rig(
        [(rank(number), ()) for number in range(3)],
        groups=list(groups.values())[:2],
        machines={},
        models={"test:Halved": Halved},
        outputs={},
        admit=lambda asked: Admission(runs={}, bounds={}, options={}),
    )
    queues = {name: served.queue for name, served in rig.workers[2].groups.serves.items()}
    assert queues["left"] is queues["again"]
    assert queues["left"] is not queues["right"]


def test_a_value_that_may_not_be_there_travels_with_a_call() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        value = Maybe(torch.arange(6).view(3, 2).to(dtype), torch.tensor([True, False, True]))
        shape, frame = pack_value(value)
        found = unpack_value(shape, frame)
        assert isinstance(found, Maybe)
        assert torch.equal(found.value, value.value)
        assert torch.equal(found.there, value.there)

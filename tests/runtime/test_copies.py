"""Ranks of any numbers, and ranks that exist several times: who takes a request."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.plan_api import Admission, Builder, HopStep, Rank, Step
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.run_choices import HIGH_WATER_MARK
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import seal, write_plan
from tests.runtime.rig import Collected, Rig, nowhere
from tests.runtime.test_ranks import LEFT, MACHINES, RIGHT, Adder, Host, Left, Right, check_answer


def renamed(steps: Sequence[Step], numbers: Sequence[int]) -> tuple[Step, ...]:
    """The steps on ranks of other numbers."""
    return tuple(
        dataclasses.replace(step, rank=numbers[step.rank]) if isinstance(step, HopStep) else step
        for step in steps
    )


class Outboxes:
    """A builder whose ways to rank 1 lead to another number."""

    def __init__(self, builder: Builder, rank: int) -> None:
        self._builder = builder
        self._rank = rank

    def outbox(self, name: str, **given: Any) -> Any:
        return self._builder.outbox(name, **{**given, "rank": self._rank})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)


def make_rig(
    numbers: Sequence[int] = (0, 1),
    copies: Mapping[int, int] | None = None,
    slots: int = 4,
    high_water_mark: int = HIGH_WATER_MARK,
) -> Rig:
    class Here(Left):
        def build(self, b: Builder) -> None:
            super().build(Outboxes(b, numbers[1]))

    ranks: list[tuple[type[Rank], Sequence[Step]]] = [
        (Here, renamed(LEFT, numbers)),
        (Right, renamed(RIGHT, numbers)),
    ]
    return Rig(
        ranks,
        numbers=numbers,
        copies=copies,
        machines={name: (numbers[rank], step) for name, (rank, step) in MACHINES.items()},
        models={"test:Host": Host, "test:Adder": Adder},
        outputs={"tokens": "i64", "windows": "i64[4]", "sums": "i64", "walked": "i64"},
        admit=lambda asked: Admission(
            runs=dict.fromkeys(MACHINES, True),
            bounds={"passes": asked["passes"], "walks": asked["walks"]},
            options={"length": asked["length"]},
        ),
        streams={"codes": (numbers[0], numbers[1], 6)},
        slots=slots,
        max_rows=64,
        high_water_mark=high_water_mark,
    )


def answers(rig: Rig, count: int = 6) -> list[Collected]:
    made = [
        rig.submit(passes=5 + index, walks=index % 3, length=3 + index)[1] for index in range(count)
    ]
    rig.run()
    rig.check_clean()
    return made


@pytest.mark.parametrize(
    ("numbers", "copies"),
    [
        ((2, 3), {}),
        ((7, 4), {}),
        ((0, 1), {1: 2}),
        ((0, 1), {0: 3}),
        ((2, 3), {2: 2, 3: 3}),
    ],
)
def test_numbers_and_copies_of_ranks_change_no_answer(
    numbers: tuple[int, int], copies: dict[int, int]
) -> None:
    expected = answers(make_rig())
    made = answers(make_rig(numbers, copies))
    for index, (one, other) in enumerate(zip(expected, made, strict=True)):
        check_answer(other, 5 + index, index % 3)
        assert other.values == one.values


def test_requests_go_to_the_copy_that_has_the_fewest() -> None:
    rig = make_rig(copies={0: 2, 1: 3})
    numbers = [rig.submit(passes=9, walks=1, length=3)[0] for _ in range(4)]
    for worker in rig.workers:
        worker.turn()
    taken = [worker.snapshot()["requests"] for worker in rig.workers]
    assert taken == [2, 2, 2, 1, 1]
    rig.conductor.cancel(numbers[1])
    for _ in range(3):
        rig.turn()
    assert rig.conductor.snapshot()["loads"] == [[2, 1], [2, 0, 1]]
    rig.submit(passes=9, walks=1, length=3)
    assert rig.conductor.snapshot()["loads"] == [[2, 2], [2, 1, 1]]
    rig.run()
    rig.check_clean()


def test_a_cancelled_request_leaves_nothing_on_any_copy() -> None:
    for turns in range(0, 30, 3):
        rig = make_rig(copies={0: 2, 1: 2})
        made = [rig.submit(passes=9, walks=2, length=4) for _ in range(4)]
        for _ in range(turns):
            rig.turn()
        for number, _ in made[:2]:
            rig.conductor.cancel(number)
        rig.run()
        for _, kept in made[2:]:
            check_answer(kept, 9, 2)
        rig.check_clean()


def test_two_processes_may_share_a_device(tmp_path: Path) -> None:
    heard: list[Any] = []
    for shares in (False, True):
        folder = write_plan("orpheus", tmp_path / str(shares))
        path = folder / "placements" / "2xcpu" / "placement.json"
        content = json.loads(path.read_text())
        if shares:
            content["devices"] = [{"device": 4, "kind": "cpu"}]
            content["processes"] = [
                {"process": rank, "rank": rank, "copy": 0, "device": 4, "module": f"rank{rank}"}
                for rank in (0, 1)
            ]
        path.write_text(json.dumps(content))
        seal(folder)
        plan = load_plan(folder)
        placement = load_placement(plan, "2xcpu")
        assert placement.devices == ({4: "cpu"} if shares else {0: "cpu", 1: "cpu"})
        ranks = LocalRanks(
            plan,
            placement,
            settings=RunSettings(cache_dir=tmp_path, threads=1),
            progress=PlainProgress(nowhere()),
        )
        asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": 40})
        made = Collected()
        ranks.conductor.submit(prepare(plan, asked), made)
        run_until_done(ranks)
        ranks.close()
        heard.append(made.values["speech"])
    assert heard[0] == heard[1]

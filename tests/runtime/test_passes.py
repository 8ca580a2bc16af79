"""Steps that ask for the pass they are in, and for numbers that admission has computed."""

from typing import Any

import pytest

from mstarc_runtime.plan_api import (
    Admission,
    Again,
    Batch,
    BranchStep,
    Builder,
    DeviceStep,
    DoneStep,
    Enter,
    HostStep,
    Job,
    Loop,
    Rank,
    Weights,
)
from mstarc_schedule.batching import BatchPolicy
from tests.runtime.rig import Rig
from tests.runtime.test_loops import Teller


class Numbered(Rank):
    """A loop of two steps; odd passes go through a host step too."""

    rank = 0

    def build(self, b: Builder) -> None:
        self.teller = b.host("teller", impl="test:Teller", weights=Weights(source=""))
        self.shift = b.table("shift", "f32", capacity=6)
        self.steps = b.loop(Loop(name="m.steps", bound="steps", tested=False))

    def release(self, slot: int) -> None:
        self.teller.release(slot)

    def begin(self, b: Batch) -> None:
        b.emit("first", self.shift.at(b, 0))

    def step(self, b: Batch) -> None:
        index = self.steps.index(b)
        b.emit("index", index)
        b.emit("shift", self.shift.at(b, index))

    def is_odd(self, slot: int) -> bool:
        return self.steps.number(slot) % 2 == 1

    def tell(self, job: Job) -> None:
        job.emit("odd", self.steps.number(job.slot))

    def end(self, b: Batch) -> None:
        """The step behind a pass."""


def device(number: int, run: Any, then: Any, **more: Any) -> DeviceStep:
    return DeviceStep(
        id=number, name=f"m.{number}", run=run, nodes=(), rows="one", then=then, line=1, **more
    )


STEPS = (
    device(0, Numbered.begin, Enter("m.steps", first=1, otherwise=5)),
    device(1, Numbered.step, 2, passes=("m.steps",)),
    BranchStep(id=2, name="m.odd", test=Numbered.is_odd, yes=3, no=4, line=1),
    HostStep(id=3, name="m.tell", run=Numbered.tell, node="teller", then=4, line=1),
    device(4, Numbered.end, Again("m.steps", first=1, otherwise=5)),
    DoneStep(id=5, machine="m"),
)


@pytest.mark.parametrize("deterministic", [False, True])
def test_passes_are_numbered_for_each_request(deterministic: bool) -> None:
    rig = Rig(
        [(Numbered, STEPS)],
        machines={"m": (0, 0)},
        models={"test:Teller": Teller},
        outputs={"first": "f32", "index": "i64", "shift": "f32", "odd": "i64"},
        admit=lambda asked: Admission(
            runs={"m": True},
            bounds={"steps": asked["steps"]},
            options={"shift": tuple(asked["base"] + n for n in range(6))},
        ),
        policy=BatchPolicy(deterministic=deterministic, tile_rows=2),
    )
    asked = [(5, 10.0), (2, 20.0), (0, 30.0), (6, 40.0)]
    made = []
    for steps, base in asked:
        made.append(rig.submit(steps=steps, base=base)[1])
        rig.turn()
    rig.run()
    for (steps, base), one in zip(asked, made, strict=True):
        assert one.values["first"] == [base]
        assert one.values.get("index", []) == list(range(steps))
        assert one.values.get("shift", []) == [base + n for n in range(steps)]
        assert one.values.get("odd", []) == [n for n in range(steps) if n % 2]
    rig.check_clean()

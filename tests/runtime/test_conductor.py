"""The order in which a request's texts are told, and what is taken when a rank is lost."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mstarc_runtime.conductor import Conductor
from mstarc_runtime.engine.host import HostEngine, InlinePool
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import pack_value
from mstarc_runtime.loader import (
    Declared,
    LoadedPlan,
    MachineStart,
    PlacementFacts,
    ProcessFacts,
)
from mstarc_runtime.messages import HostOutput, MachineDone, Released
from mstarc_runtime.plan_api import Admission
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.transport.local import LocalMailbox, LocalNetwork
from mstarc_runtime.transport.mailbox import CONDUCTOR
from tests.runtime.test_ranks import make_rig


class Letters:
    """A `via` node: a token is a letter."""

    def heard(self, token: int) -> str:
        return chr(token)

    def said(self, token: int) -> str:
        return chr(token)


class Told:
    """Keeps what a listener is told, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def text(self, output: str, piece: str) -> None:
        self.events.append((output, piece))

    def sound(self, output: str, samples: Any, rate: int) -> None: ...

    def value(self, output: str, value: Any) -> None: ...

    def finished(self) -> None:
        self.events.append("finished")

    def failed(self, failure: Exception) -> None:
        self.events.append(failure)

    def cancelled(self) -> None: ...


def _made(outputs: tuple[Declared, ...], pool: InlinePool) -> tuple[Conductor, LocalMailbox]:
    """A conductor of a plan of one rank, and that rank's mailbox."""
    plan = LoadedPlan(
        folder=Path(),
        model="test",
        spec="test.mstar",
        inputs=(),
        outputs=outputs,
        options=(),
        nodes=(),
        via_nodes={},
        placements=("test",),
        request_class=lambda **given: given,  # type: ignore[arg-type]
        machines=SimpleNamespace(  # type: ignore[arg-type]
            check=lambda request: None,
            admit=lambda request: Admission(runs={}, bounds={}, options={}),
        ),
    )
    placement = PlacementFacts(
        name="test",
        devices={0: "cpu"},
        max_requests=1,
        max_tokens=8,
        machines={"talk": MachineStart(rank=0, step=0)},
        streams={},
        processes=(ProcessFacts(process=0, rank=0, copy=0, device=0, module="rank0"),),
    )
    network = LocalNetwork()
    conductor = Conductor(
        plan,
        placement,
        mailbox=network.mailbox(CONDUCTOR),
        pool=pool,
        via={name: HostEngine(name, Letters()) for name in ("ear", "mouth")},
    )
    return conductor, network.mailbox(0)


def test_a_question_is_told_to_its_end_before_its_answer() -> None:
    pool = InlinePool()
    outputs = (
        Declared(name="question", type="text", via=("ear", "heard")),
        Declared(name="answer", type="text", via=("mouth", "said")),
    )
    conductor, rank = _made(outputs, pool)
    told = Told()
    wants = frozenset({"question", "answer"})
    conductor.submit(PreparedRequest(name="", inputs={}, options={}, wants=wants, seed=0), told)

    def emit(output: str, letter: str) -> None:
        shape, frame = pack_value(ord(letter))
        rank.send(CONDUCTOR, HostOutput(0, 0, output, shape), () if frame is None else (frame,))

    # All of it is there before the pool has read the first letter.
    for output, letters in (("question", "what"), ("answer", "that")):
        for letter in letters:
            emit(output, letter)
    rank.send(CONDUCTOR, MachineDone(0, 0, 0, "talk"))
    rank.send(CONDUCTOR, Released(0, 0, 0))
    while conductor.turn():
        pass
    order = [event[0] for event in told.events if event != "finished"]
    assert order == sorted(order, reverse=True)
    texts = {name: "".join(p for o, p in told.events[:-1] if o == name) for name in wants}
    assert texts == {"question": "what", "answer": "that"}
    assert told.events[-1] == "finished"
    assert pool.running == 0


def test_an_answer_is_whole_before_its_rank_has_let_go_of_it() -> None:
    conductor, rank = _made((Declared(name="actions", type="action"),), InlinePool())
    told = Told()
    wants = frozenset({"actions"})
    conductor.submit(PreparedRequest(name="", inputs={}, options={}, wants=wants, seed=0), told)
    rank.send(CONDUCTOR, MachineDone(0, 0, 0, "talk"))
    conductor.turn()
    assert told.events == ["finished"]
    assert conductor.pending == 1
    rank.send(CONDUCTOR, Released(0, 0, 0))
    conductor.turn()
    assert told.events == ["finished"]
    assert conductor.pending == 0


def test_nothing_is_taken_after_a_rank_is_lost() -> None:
    rig = make_rig(slots=1)
    _, running = rig.submit(passes=9, walks=1, length=3)
    _, queued = rig.submit(passes=9, walks=1, length=3)
    failure = RuntimeFailure("MS9301", "the process of rank 1 ended")
    rig.conductor.lose(failure)
    assert running.failure is failure
    assert queued.failure is failure
    assert rig.conductor.snapshot()["waiting"] == 0
    with pytest.raises(RuntimeFailure) as caught:
        rig.submit(passes=1, walks=1, length=3)
    assert (caught.value.code, caught.value.message) == (failure.code, failure.message)

"""When what is lost is started again, how a process is heard, and who is addressed afterwards."""

import os
import time
from pathlib import Path

import pytest

from mstarc_runtime.copies import Copies
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import GroupFacts, PlacementFacts, ProcessFacts
from mstarc_runtime.messages import Release
from mstarc_runtime.process_ranks import _together
from mstarc_runtime.spawning import Birth, birth_from_json, birth_to_json, forget_groups
from mstarc_runtime.supervision import BEAT_S, Heart, Pulse, Restarts, Supervision
from mstarc_runtime.transport.sockets import SocketMailbox
from tests.runtime.test_ranks import make_rig


def placement(*facts: tuple[int, int], groups: tuple[tuple[int, ...], ...] = ()) -> PlacementFacts:
    """Of processes (rank, copy), in order of their numbers."""
    return PlacementFacts(
        name="test",
        devices={0: "cpu"},
        max_requests=4,
        max_tokens=8,
        machines={},
        streams={},
        processes=tuple(
            ProcessFacts(process=number, rank=rank, copy=copy, device=0, module="rank0")
            for number, (rank, copy) in enumerate(facts)
        ),
        groups=tuple(
            GroupFacts(node=f"node{index}", ranks=ranks, tp=len(ranks), sp=1)
            for index, ranks in enumerate(groups)
        ),
    )


def test_waits_grow_and_end_and_a_quiet_window_is_forgiven() -> None:
    restarts = Restarts(Supervision(restarts=4, window_s=100.0))
    assert [restarts.wait_s(now) for now in (0.0, 1.0, 2.0, 3.0)] == [0.0, 1.0, 2.0, 4.0]
    assert restarts.wait_s(4.0) is None
    assert restarts.wait_s(102.5) == 1.0  # the one at 3.0 still counts
    assert restarts.total == 5
    assert Restarts(Supervision(restarts=0)).wait_s(0.0) is None


def test_a_pulse_tells_silence_and_how_long_a_turn_lasts() -> None:
    now_s = 0.0
    pulse = Pulse(clock=lambda: now_s)
    heart = Heart(os.dup(pulse.far_end))
    heart.turn_begins()
    deadline_s = time.monotonic() + 10
    while pulse.look()[1] <= 0:
        assert time.monotonic() < deadline_s
        time.sleep(BEAT_S / 5)
    silent_s, turn_s = pulse.look()
    assert silent_s == 0.0 and 0 < turn_s < 10
    # A device that has been at one thing for an hour, however short the host's turns are.
    heart.turn_begins(time.monotonic() - 3600)
    while pulse.look()[1] < 3600:
        assert time.monotonic() < deadline_s
        time.sleep(BEAT_S / 5)
    heart.turn_ends()
    pulse.forget_far_end()
    pulse.close()


def test_time_in_which_nobody_listened_is_no_silence() -> None:
    now_s = 0.0
    pulse = Pulse(clock=lambda: now_s)
    os.write(pulse.far_end, bytes(8))
    assert pulse.look() == (0.0, 0.0)
    for _ in range(8):
        now_s += BEAT_S
        silent_s, _ = pulse.look()
    assert silent_s == pytest.approx(2.0)
    now_s += 60.0  # this process was stopped
    assert pulse.look()[0] == pytest.approx(2.0 + BEAT_S)
    pulse.forget_far_end()
    pulse.close()
    pulse.close()


def test_ranks_that_hold_parts_of_one_node_are_lost_together() -> None:
    apart = placement((0, 0), (1, 0))
    assert set(_together(apart)) == {frozenset({0}), frozenset({1})}
    # Two copies of ranks 0 and 1, joined by one node, and 1 and 2 by another.
    joined = placement((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), groups=((0, 1), (1, 2)))
    assert set(_together(joined)) == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}


def test_a_copy_that_is_away_is_not_chosen() -> None:
    copies = Copies(placement((0, 0), (0, 1), (1, 0)))
    assert copies.can_take({0}) and not copies.can_take({0, 1}) and not copies.can_take({2})
    assert copies.take({0}) == {0: 1, 1: 2}
    assert copies.take({0}) == {0: 1, 1: 2}
    assert copies.take() == {0: 0, 1: 2}


def test_groups_of_processes_that_are_gone_meet_anew(tmp_path: Path) -> None:
    for name in ("group-0-1", "group-1-2", "group-2-3", "process0"):
        (tmp_path / name).touch()
    forget_groups(tmp_path, frozenset({0, 1, 2}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["group-2-3", "process0"]


def test_a_birth_is_told_as_it_is() -> None:
    birth = Birth(process=1, successors={0: 2, 1: 1}, first_request=7, pulse=5)
    assert birth_from_json(birth_to_json(birth)) == birth


def test_what_was_for_a_lost_participant_does_not_reach_its_successor(tmp_path: Path) -> None:
    sender = SocketMailbox(tmp_path, 0)
    sender.send(1, Release(0, 1))
    sender.succeed(1, 1)
    sender.send(1, Release(0, 2))
    successor = SocketMailbox(tmp_path, 1, successors={1: 1})
    deadline_s = time.monotonic() + 10
    while (parcel := successor.receive()) is None:
        assert time.monotonic() < deadline_s
        successor.wait(0.05)
    assert parcel.message == Release(0, 2)
    assert successor.receive() is None
    sender.succeed(1, 1)
    assert (tmp_path / "process1-1").exists(), "told twice, it is still there"
    sender.close()
    successor.close()


def test_requests_of_a_lost_rank_end_at_once_and_free_their_slot_with_its_successor() -> None:
    rig = make_rig(slots=1)
    _, running = rig.submit(passes=9, walks=1, length=3)
    _, queued = rig.submit(passes=9, walks=1, length=3)
    conductor = rig.conductor
    failure = RuntimeFailure("MS9301", "the process of rank 0 ended")
    for box in rig.network._boxes.values():
        box.succeed = lambda to, successor: None  # type: ignore[method-assign]
    conductor.lose_some({0: 1}, failure)
    assert running.failure is failure and queued.failure is failure
    assert conductor.snapshot()["waiting"] == 0
    assert conductor.snapshot()["taken_slots"] == 1, "its predecessor may still be heard"
    with pytest.raises(RuntimeFailure, match="rank 0 ended"):
        rig.submit(passes=1, walks=1, length=3)
    conductor.ready.add(0)
    for _ in range(20):
        conductor.turn()
        for worker in rig.workers[1:]:
            worker.turn()
    assert conductor.snapshot()["taken_slots"] == 0 and not conductor.away
    assert running.events == ["failed"]

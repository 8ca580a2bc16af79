"""Pages that run out: younger requests give theirs, get them back, and nobody's answer changes."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_schedule.batching import BatchPolicy
from mstarc_schedule.preemption import gives_way, last_resort, may_begin
from tests.runtime.rig import Collected
from tests.runtime.test_ranks import Left, check_answer, make_rig

POLICIES = [BatchPolicy(deterministic=False), BatchPolicy(deterministic=True, tile_rows=3)]


class Roomy(Left):
    pages = 200


class Narrow(Left):
    """13 pages of 4 rows: one request of 52 rows, or the beginnings of many."""

    pages = 13


@cache
def alone(passes: int, length: int) -> Collected:
    """What a request makes with nobody beside it."""
    rig = make_rig(left=Roomy)
    _, made = rig.submit(passes=passes, walks=1, length=length)
    rig.run()
    return made


@pytest.mark.parametrize("policy", POLICIES, ids=["batched", "deterministic"])
def test_requests_that_lack_pages_take_turns_and_all_are_answered(policy: BatchPolicy) -> None:
    rig = make_rig(slots=6, left=Narrow, policy=policy)
    lengths = [8, 3, 11, 6, 4, 9, 5, 7]
    made = [rig.submit(passes=40, walks=1, length=length)[1] for length in lengths]
    rig.run()
    for length, one in zip(lengths, made, strict=True):
        check_answer(one, 40, 1)
        assert one.values["tokens"] == alone(40, length).values["tokens"]
    moves = rig.workers[0].preempter.moves
    assert moves.set_aside == moves.brought_back >= 3
    assert moves.pages_out == moves.pages_in
    rig.check_clean()


def test_the_oldest_is_never_held_up_by_younger_ones() -> None:
    rig = make_rig(slots=6, left=Narrow)
    made = [rig.submit(passes=40, walks=0, length=8)[1] for _ in range(6)]
    ended: list[int] = []
    for _ in range(20_000):
        rig.turn()
        ended += [i for i, one in enumerate(made) if one.is_over and i not in ended]
        if not rig.conductor.pending:
            break
    assert ended == [0, 1, 2, 3, 4, 5]


@settings(deadline=None, max_examples=12)
@given(
    asked=st.lists(
        st.tuples(st.integers(1, 40), st.integers(2, 11), st.integers(0, 200), st.booleans()),
        min_size=2,
        max_size=8,
    ),
    slots=st.integers(2, 6),
)
def test_whoever_is_cancelled_when_leaves_nothing_and_touches_nobody(
    asked: list[tuple[int, int, int, bool]], slots: int
) -> None:
    rig = make_rig(slots=slots, left=Narrow)
    begun: list[tuple[int, Collected]] = []
    for passes, length, turns, _ in asked:
        begun.append(rig.submit(passes=passes, walks=1, length=length))
        for _ in range(turns // 4):
            rig.turn()
    for (number, made), (_, _, turns, is_cancelled) in zip(begun, asked, strict=True):
        for _ in range(turns // 4):
            rig.turn()
        if is_cancelled and not made.is_over:
            rig.conductor.cancel(number)
    rig.run()
    for (_, made), (passes, length, _, _) in zip(begun, asked, strict=True):
        assert made.failure is None
        if made.events[-1] != "cancelled":
            check_answer(made, passes, 1)
            assert made.values.get("tokens", []) == alone(passes, length).values.get("tokens", [])
    rig.check_clean()


@given(ages=st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True), data=st.data())
def test_nobody_gives_way_to_a_younger_request(ages: list[int], data: Any) -> None:
    wanting = data.draw(st.lists(st.sampled_from(ages), min_size=1, unique=True))
    holding = data.draw(st.lists(st.sampled_from(ages), unique=True))
    chosen = gives_way(wanting, holding)
    assert chosen in wanting or chosen > max(wanting)
    last = last_resort(wanting, holding)
    assert last is None or last > min(wanting)
    assert may_begin(min(ages), ages[:0]) and not may_begin(max(ages) + 1, ages)

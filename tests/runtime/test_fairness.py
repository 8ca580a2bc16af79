"""The order in which requests that wait are let in."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mstarc_schedule.fairness import FairQueue, Turn


def all_of(queue: FairQueue[str]) -> str:
    return "".join(queue.pop() for _ in range(len(queue)))


def filled(items: str, **weights: int) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for item in items:
        queue.push(item, Turn(key=item, weight=weights.get(item, 1)))
    return queue


def test_keys_take_turns_by_their_weights() -> None:
    assert all_of(filled("aaaabb")) == "abab" + "aa"
    order = all_of(filled("a" * 12 + "b" * 12, a=3))
    assert Counter(order[:8]) == {"a": 6, "b": 2}


def test_one_key_with_one_priority_is_a_queue() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(9):
        queue.push(number, Turn())
    assert list(queue) == [queue.pop() for _ in range(9)] == list(range(9))


def test_priority_orders_what_a_key_waits_for_and_no_other_key() -> None:
    queue: FairQueue[str] = FairQueue()
    for item, key, priority in (("a", "x", 0), ("b", "x", -1), ("c", "x", 1), ("d", "y", -1)):
        queue.push(item, Turn(key=key, priority=priority))
    assert all_of(queue) == "cdab"


def test_nobody_saves_turns_up() -> None:
    queue = filled("a" * 6)
    for _ in range(3):
        queue.pop()
    for _ in range(3):
        queue.push("b", Turn(key="b"))
    # Not `bbb` first: `b` begins where `a` is.
    assert all_of(queue) in ("ababab", "bababa")


def test_what_is_taken_out_does_not_wait_any_more() -> None:
    queue: FairQueue[str] = FairQueue()
    kept, gone = "kept", "gone"
    queue.push(gone, Turn(key="a"))
    queue.push(kept, Turn(key="a"))
    queue.remove(gone)
    assert (len(queue), queue.waiting_of("a"), queue.waiting_of("b")) == (1, 1, 0)
    with pytest.raises(ValueError, match="does not wait"):
        queue.remove(gone)
    assert queue.pop() == kept


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 1)) | st.none(), max_size=60))
def test_every_item_comes_out_once_and_no_key_is_left_behind(
    steps: list[tuple[str, int] | None],
) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    waiting: Counter[str] = Counter()
    behind: Counter[str] = Counter()
    for number, step in enumerate(steps):
        if step is not None:
            key, priority = step
            queue.push((key, number), Turn(key=key, priority=priority))
            waiting[key] += 1
        elif len(queue):
            key, _ = queue.pop()
            waiting[key] -= 1
            behind = Counter({other: behind[other] + 1 for other in "abc" if waiting[other]})
            behind[key] = 0
            # Three keys of one weight: none waits for more than two turns of each other one.
            assert max(behind.values()) <= 4
        assert len(queue) == sum(waiting.values())

"""Many requests at once over narrow ways: nobody waits for ever, and no queue grows without end."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis.strategies import integers

from tests.runtime import test_copies, test_spreads, test_travel
from tests.runtime.rig import Collected, Rig

BURST = 64
SLOTS = 10

Make = Callable[[int], Rig]

LAYOUTS: dict[str, tuple[Make, Callable[[int], dict[str, Any]]]] = {
    "streams between ranks": (
        lambda mark: test_copies.make_rig(slots=SLOTS, high_water_mark=mark),
        lambda index: {"passes": 3 + index % 9, "walks": index % 4, "length": 2 + index % 7},
    ),
    "copies": (
        lambda mark: test_copies.make_rig((2, 3), {2: 2, 3: 3}, SLOTS, mark),
        lambda index: {"passes": 3 + index % 9, "walks": index % 4, "length": 2 + index % 7},
    ),
    "contexts that travel": (
        lambda mark: test_travel.make_rig(
            0, 1, 2, pages=(160, 160, 64), slots=SLOTS, high_water_mark=mark
        ),
        lambda index: {"turns": 1 + index % 3, "passes": 1 + index % 5, "length": 2 + index % 7},
    ),
    "few pages": (
        lambda mark: test_travel.make_rig(
            0, 1, 0, pages=(160, 12, 64), slots=SLOTS, high_water_mark=mark
        ),
        lambda index: {"turns": 1, "passes": 1 + index % 3, "length": 2 + index % 7},
    ),
    "branches": (
        lambda mark: test_spreads.make_rig(
            test_spreads.spread(0, 1, 2), SLOTS, high_water_mark=mark
        ),
        lambda index: {
            "turns": 1 + index % 3,
            "inner": index % 3,
            "length": 2 + index % 7,
            "wide": index % 3 > 0,
        },
    ),
}


class Watch:
    """Turns a rig's parts in any order, and looks at its queues."""

    def __init__(self, rig: Rig, mark: int, seed: int) -> None:
        self.rig = rig
        self.mark = mark
        self.random = Random(seed)
        self.kept = 0

    def run(self) -> None:
        parts: list[Any] = [*self.rig.workers, self.rig.conductor]
        for _ in range(100_000):
            # Somebody is slow, and then somebody else.
            for part in self.random.sample(parts, self.random.randint(1, len(parts))):
                part.turn()
            for waiting, kept in self.rig.network.lengths().values():
                assert waiting <= self.mark
                self.kept = max(self.kept, kept)
            if not self.rig.conductor.pending:
                return
        raise AssertionError(f"still pending: {self.rig.snapshot()}")


@pytest.mark.parametrize(
    ("layout", "mark"),
    [*((layout, 10) for layout in LAYOUTS), ("copies", 1), ("few pages", 1)],
)
def test_a_burst_ends_and_no_queue_grows(layout: str, mark: int) -> None:
    make, options = LAYOUTS[layout]
    alone = make(1000)
    expected = [alone.submit(seed=index, **options(index))[1] for index in range(BURST)]
    alone.run()
    rig = make(mark)
    made = [rig.submit(seed=index, **options(index))[1] for index in range(BURST)]
    watch = Watch(rig, mark, seed=mark)
    watch.run()
    assert all(one.events[-1] == "finished" for one in made)
    assert [one.values for one in made] == [one.values for one in expected]
    rig.check_clean()
    # A step's messages, and those about beginnings and ends of requests.
    assert watch.kept <= 8 * SLOTS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_burst_of_which_half_is_cancelled_leaves_nothing(layout: str) -> None:
    make, options = LAYOUTS[layout]
    rig = make(10)
    made: list[tuple[int, Collected]] = [
        rig.submit(seed=index, **options(index)) for index in range(BURST)
    ]
    random = Random(5)
    for number, _ in random.sample(made, BURST // 2):
        for _ in range(random.randint(0, 4)):
            rig.turn()
        rig.conductor.cancel(number)
    Watch(rig, 10, seed=3).run()
    assert all(one.is_over and one.failure is None for _, one in made)
    rig.check_clean()


def _few_pages(seed: int) -> tuple[Rig, list[Collected], Random]:
    """Requests whose contexts travel between ranks with pages for two or three of them."""
    random = Random(seed)
    slots = random.randint(2, 12)
    pages = (random.choice([160, 12, 20, 8]), random.choice([8, 9, 10, 11, 12, 13, 16]), 64)
    where = random.choice([(0, 1, 0), (0, 0, 0), (0, 1, 2)])
    mark = random.choice([1, 2, 10, 1000])
    rig = test_travel.make_rig(*where, pages=pages, slots=slots, high_water_mark=mark)
    made = []
    for index in range(random.randint(slots, 3 * slots)):
        turns, passes = random.randint(1, 2), 1 + random.randint(0, 4)
        options = {"turns": turns, "passes": passes, "length": 2 + random.randint(0, 7)}
        made.append(rig.submit(seed=index, **options)[1])
    return rig, made, random


# In these, what one rank's turn took from a request its next turn gave back, for ever.
@example(seed=1000171)
@example(seed=1000256)
@example(seed=1000373)
@example(seed=1000442)
@example(seed=1000444)
@settings(max_examples=8, deadline=None)
@given(seed=integers(0, 10**6))
def test_requests_that_take_pages_from_one_another_end(seed: int) -> None:
    rig, made, random = _few_pages(seed)
    parts: list[Any] = [*rig.workers, rig.conductor]
    for _ in range(8_000):
        for part in random.sample(parts, random.randint(1, len(parts))):
            part.turn()
        if not rig.conductor.pending:
            break
    assert not rig.conductor.pending, rig.snapshot()
    assert all(one.events[-1] == "finished" for one in made)
    rig.check_clean()

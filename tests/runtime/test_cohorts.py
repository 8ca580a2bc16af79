"""Who was dispatched together goes on together, unless a neighbour takes much longer."""

from dataclasses import dataclass, field

from mstarc_runtime.cohorts import MOST_WAIT_NS, Cohort, Cohorts


@dataclass
class Clock:
    now_ns: int = 1_000
    gone: list[str] = field(default_factory=list)

    def go(self, name: str) -> None:
        self.gone.append(name)


def made(size: int) -> tuple[Clock, Cohorts, Cohort]:
    clock = Clock()
    return clock, Cohorts(lambda: clock.now_ns), Cohort(size=size, left=size)


def test_one_alone_waits_for_nobody() -> None:
    clock, cohorts, cohort = made(1)
    cohorts.ended(cohort, lambda: clock.go("a"), 500)
    assert clock.gone == ["a"]
    assert cohorts.most_wait_s(0.5) == 0.5


def test_the_last_one_lets_all_go() -> None:
    clock, cohorts, cohort = made(3)
    cohorts.ended(cohort, lambda: clock.go("a"), 500)
    cohorts.ended(cohort, lambda: clock.go("b"), 500)
    assert not cohorts.let_go()
    assert clock.gone == []
    cohorts.ended(cohort, None, 500)  # the third was cancelled
    assert clock.gone == ["a", "b"]
    assert not cohorts.let_go()


def test_one_that_takes_long_holds_nobody_up() -> None:
    clock, cohorts, cohort = made(3)
    cohorts.ended(cohort, lambda: clock.go("a"), 500)
    assert cohorts.most_wait_s(1.0) == 1500 / 1e9
    clock.now_ns += 1500
    assert cohorts.most_wait_s(1.0) == 0
    assert cohorts.let_go()
    assert clock.gone == ["a"]
    cohorts.ended(cohort, lambda: clock.go("b"), 2000)
    assert clock.gone == ["a", "b"]
    cohorts.ended(cohort, lambda: clock.go("c"), 9000)
    assert clock.gone == ["a", "b", "c"]
    assert cohorts.most_wait_s(1.0) == 1.0


def test_nobody_waits_longer_than_the_bound() -> None:
    clock, cohorts, cohort = made(1000)
    cohorts.ended(cohort, lambda: clock.go("a"), 1_000_000_000)
    clock.now_ns += MOST_WAIT_NS
    assert cohorts.let_go()

"""When requests begin, on a clock that only the service moves."""

from mstarc_runtime.bench.job import Extent, Load
from mstarc_runtime.bench.load import Clock, run_load
from mstarc_runtime.bench.record import Record

TICK_S = 1e-6


class Timed:
    """Answers each request `takes_s` after it began; `turn` moves the clock to what is next."""

    def __init__(self, takes_s: float = 1.0) -> None:
        self.now_s = 100.0
        self.most_at_once = 0
        self.numbers: list[int] = []
        self._takes_s = takes_s
        self._running: list[tuple[float, Record, Clock]] = []

    def clock(self) -> float:
        return self.now_s

    def begin(self, number: int, record: Record, now: Clock) -> None:
        self.numbers.append(number)
        self._running.append((self.now_s + self._takes_s, record, now))
        self.most_at_once = max(self.most_at_once, len(self._running))

    def turn(self, timeout_s: float) -> None:
        ends_s = min((end for end, _, _ in self._running), default=float("inf"))
        self.now_s = min(self.now_s + max(timeout_s, TICK_S), ends_s)
        for end_s, record, now in list(self._running):
            if end_s <= self.now_s:
                record.ended_s = now()
                self._running.remove((end_s, record, now))


def load(
    kind: str, size: float, takes_s: float = 1.0, **extent: float
) -> tuple[Timed, list[Record]]:
    service = Timed(takes_s)
    records = run_load(
        service,
        Load(kind=kind, size=size),  # type: ignore[arg-type]
        Extent(**{"warm_up": 0, **extent}),  # type: ignore[arg-type]
        seed=7,
        first=1000,
        clock=service.clock,
    )
    return service, records


def begun(records: list[Record]) -> list[float]:
    return [round(record.begun_s, 6) for record in records]


def test_a_wave_begins_when_the_one_before_is_over() -> None:
    service, records = load("waves", 3, count=7)
    assert begun(records) == [0, 0, 0, 1, 1, 1, 2]
    assert service.most_at_once == 3
    assert [record.number for record in records] == list(range(1000, 1007))


def test_waves_begin_until_the_time_is_over_and_run_to_their_end() -> None:
    _, records = load("waves", 2, seconds=2.5)
    assert begun(records) == [0, 0, 1, 1, 2, 2]
    assert all(record.ended_s is not None for record in records)


def test_with_refill_a_request_follows_each_that_ends() -> None:
    service, records = load("refill", 2, count=5)
    assert begun(records) == [0, 0, 1, 1, 2]
    assert service.most_at_once == 2


def test_arrivals_come_at_the_rate_and_do_not_wait_for_answers() -> None:
    service, records = load("open", 20, takes_s=3.0, seconds=10)
    assert 150 < len(records) < 250
    assert service.most_at_once > 40
    assert all(record.begun_s - record.due_s < 0.051 for record in records)


def test_a_seed_fixes_the_arrivals() -> None:
    dues = [[record.due_s for record in load("open", 5, count=20)[1]] for _ in range(2)]
    assert dues[0] == dues[1]


def test_what_warms_up_is_not_measured_and_gets_requests_of_its_own() -> None:
    service = Timed()
    settled: list[float] = []
    records = run_load(
        service,
        Load(kind="waves", size=2),
        Extent(count=2),
        seed=0,
        clock=service.clock,
        settled=lambda: settled.append(service.now_s),
    )
    assert len(records) == 2
    assert len(service.numbers) == 4
    assert len(set(service.numbers)) == 4
    assert settled == [101.0]

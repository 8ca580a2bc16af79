"""When requests begin: waves, a constant number at once, or arrivals at a rate.

`run_load` begins requests with a service and collects their records. Arrivals are those of a
Poisson process that the seed fixes; a request that begins late, because the service kept this
process busy, is measured from when it was due.
"""

import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from mstarc_runtime.bench.job import Extent, Load
from mstarc_runtime.bench.record import Record

DEFAULT_SECONDS = 10.0
DEFAULT_OPEN_WARM_UP = 4
_WAIT_S = 0.05
# What warms up is numbered apart: a prompt that was read before may be read faster.
_WARM_UP_APART = 50_000

Clock = Callable[[], float]


class Service(Protocol):
    """Whoever answers requests."""

    def begin(self, number: int, record: Record, now: Clock) -> None:
        """Begins request `number` and lets `record` know what it makes, by the clock `now`."""
        ...

    def turn(self, timeout_s: float) -> None:
        """Works, or waits for something to happen, no longer than about that."""
        ...


def run_load(
    service: Service,
    load: Load,
    extent: Extent,
    *,
    seed: int,
    first: int = 0,
    clock: Clock = time.monotonic,
    settled: Callable[[], None] = lambda: None,
) -> list[Record]:
    """The records of the requests that count, numbered from `first`.

    `settled` is called when those that warm up are over. Fails with what `service` fails with.
    """
    warm_up = extent.warm_up
    if warm_up is None:
        warm_up = DEFAULT_OPEN_WARM_UP if load.kind == "open" else int(load.size)
    if warm_up:
        at_once = warm_up if load.kind == "open" else int(load.size)
        apart = first + _WARM_UP_APART
        waves = Load(kind="waves", size=at_once)
        _run(service, waves, Extent(count=warm_up), Random(seed), apart, clock)
    settled()
    return _run(service, load, extent, Random(seed), first, clock)


def _run(
    service: Service, load: Load, extent: Extent, random: Random, first: int, clock: Clock
) -> list[Record]:
    begun = clock()

    def now() -> float:
        return clock() - begun

    seconds = extent.seconds
    if seconds is None and extent.count is None:
        seconds = DEFAULT_SECONDS
    records: list[Record] = []
    running: list[Record] = []
    due = random.expovariate(load.size) if load.kind == "open" else 0.0

    def may_begin() -> bool:
        """Whether one more request is to be measured."""
        if extent.count is not None and len(records) >= extent.count:
            return False
        if seconds is None or not records:
            return True
        return (due if load.kind == "open" else now()) < seconds

    def begin(due_s: float) -> None:
        record = Record(number=first + len(records), due_s=due_s, begun_s=now())
        records.append(record)
        running.append(record)
        service.begin(record.number, record, now)

    while True:
        running = [record for record in running if record.ended_s is None]
        if load.kind == "open":
            while may_begin() and due <= now():
                begin(due)
                due += random.expovariate(load.size)
        elif load.kind == "refill":
            while may_begin() and len(running) < load.size:
                begin(now())
        elif not running and may_begin():
            left = load.size if extent.count is None else extent.count - len(records)
            for _ in range(int(min(load.size, left))):
                begin(now())
        waits_for_due = load.kind == "open" and may_begin()
        if not running and not waits_for_due:
            return records
        service.turn(max(0.0, min(_WAIT_S, due - now())) if waits_for_due else _WAIT_S)

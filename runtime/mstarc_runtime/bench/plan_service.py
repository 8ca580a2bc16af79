"""A plan as a service: its ranks, and the conductor in this process.

Requests are read before anything is measured: a prompt's file is not part of an answer's time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.bench.draw import made_up, read_requests
from mstarc_runtime.bench.job import Job
from mstarc_runtime.bench.load import Clock
from mstarc_runtime.bench.record import Record
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.launch import Ranks
from mstarc_runtime.loader import LoadedPlan
from mstarc_runtime.request import Asked, PreparedRequest, prepare


class PlanService:
    """Ranks that are ready. Inputs that are made up are kept in `folder`."""

    def __init__(self, plan: LoadedPlan, ranks: Ranks, prepared: Callable[[int], PreparedRequest]):
        self._plan = plan
        self._ranks = ranks
        self._prepared = prepared

    def begin(self, number: int, record: Record, now: Clock) -> None:
        prepared = self._prepared(number)
        # Reading what is asked was not the service's work.
        record.begun_s = now()
        self._ranks.conductor.submit(prepared, _Listener(record, now))

    def turn(self, timeout_s: float) -> None:
        if not self._ranks.turn():
            self._ranks.wait(timeout_s)


def requests_of(job: Job, plan: LoadedPlan, folder: Path) -> Callable[[int], PreparedRequest]:
    """Request `number` of the job, read. Fails with MS9015 or MS92xx, at once for any of a file."""
    written = [prepare(plan, asked) for asked in read_requests(job)]
    for one in written:
        one.admit(plan)
    if written:
        return lambda number: written[number % len(written)]
    kept: dict[int, PreparedRequest] = {}

    def request(number: int) -> PreparedRequest:
        found = kept.get(number)
        if found is None:
            inputs, kind = made_up(job, number, plan.inputs, folder)
            asked = Asked(
                name=str(number), inputs=inputs, options=kind.options, wants=kind.wants, seed=number
            )
            found = kept[number] = prepare(plan, asked)
        return found

    request(0).admit(plan)
    return request


class _Listener:
    """A request's listener that only notes times."""

    def __init__(self, record: Record, now: Clock) -> None:
        self._record = record
        self._now = now

    def text(self, output: str, piece: str) -> None:
        self._record.read(self._now())

    def sound(self, output: str, samples: NDArray[np.float32], rate: int) -> None:
        if len(samples):
            self._record.heard(self._now(), len(samples) / rate)

    def value(self, output: str, value: Any) -> None:
        self._record.got(self._now())

    def finished(self) -> None:
        self._record.ended_s = self._now()

    def failed(self, failure: RuntimeFailure) -> None:
        self._record.ended_s = self._now()
        self._record.error = f"{failure.code}: {failure.message}"

    def cancelled(self) -> None:
        self._record.ended_s = self._now()
        self._record.error = "cancelled"

"""What a rank tells of itself: what it has run, what requests hold, where they are.

It answers whoever asks between two turns. While somebody watches it also tells before a step that
may be long, so that a request is seen where it is and not where it was.
"""

import json
import time
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from mstarc_runtime.messages import Tell, Told
from mstarc_runtime.step_costs import now_of
from mstarc_runtime.transport.mailbox import CONDUCTOR

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker

_EVERY_S = 0.1


class Teller:
    """Tells the conductor about one rank."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._told_s = 0.0
        self._watched_until_s = 0.0

    @property
    def is_watched(self) -> bool:
        """Whether `again` has anything to do."""
        return self._watched_until_s > 0.0

    def answer(self, asked: Tell) -> None:
        """Tells what was asked for."""
        self._told_s = time.monotonic()
        self._watched_until_s = self._told_s + asked.watch_s if asked.watch_s else 0.0
        self._tell(with_trace=asked.with_trace)

    def again(self) -> None:
        """A step is about to run: tells where all are, if that was not told a moment ago."""
        now_s = time.monotonic()
        if now_s > self._watched_until_s:
            self._watched_until_s = 0.0
        elif now_s - self._told_s > _EVERY_S:
            self._told_s = now_s
            self._tell(with_trace=False)

    def _tell(self, *, with_trace: bool) -> None:
        worker = self._worker
        told = Told(
            worker.plan.process,
            worker.coverage.so_far(),
            worker.start_s,
            json.dumps(worker.snapshot(), default=_plain),
            json.dumps(now_of(worker)),
        )
        spans = worker.trace.all_spans() if with_trace and worker.trace is not None else []
        worker.mailbox.send(CONDUCTOR, told, (json.dumps(spans).encode(),))


def _plain(count: Any) -> Any:
    """What JSON does not know in a snapshot: a record of counts, or a count of numpy's."""
    if is_dataclass(count) and not isinstance(count, type):
        return asdict(count)
    return int(count)

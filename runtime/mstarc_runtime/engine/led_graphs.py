"""What the ranks that hold parts of a captured step's nodes are told of it.

While a step is recorded each call of such a node is recorded on the others, too (`mirroring`), with
the arguments that it is given in the graph. A replay is told in one message before the first of the
passes that are launched together; nobody answers. Of a step that calls several such nodes the calls
are told in its order, and its passes one by one (`stepping.goes_on`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch

if TYPE_CHECKING:
    from mstarc_runtime.grouping import Followers
    from mstarc_runtime.worker import Worker

# Calls of one node that follow one another: from number to below number.
_Calls = tuple["Followers", int, int]


class LedGraphs:
    """The steps of one rank that were recorded on others as well."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], list[_Calls]] = {}

    @contextmanager
    def recording(self, worker: "Worker", batch: StepBatch) -> Iterator[None]:
        """While it lasts, the step's body is recorded, on others as well."""
        led = worker.groups.led_by(batch.step)
        recorder = _CallOrder()
        for followers in led:
            followers.recorder = recorder
        try:
            with in_graph(led):
                yield
        finally:
            for followers in led:
                followers.recorder = None
        if not led:
            return
        self._calls[(batch.step.id, batch.bucket)] = recorder.calls
        if batch.log is not None:
            for followers in led:
                followers.note("capture_end", (), {}, batch)
                followers.tell()

    def tell(self, batch: StepBatch) -> "list[Followers]":
        """Lets the others replay the passes that are launched now, if they do not know already.

        From then on they wait inside of them: `batch.told` says in how many.
        """
        calls = self._calls.get((batch.step.id, batch.bucket))
        if calls is None:
            return []
        if not batch.told:
            batch.told = batch.passes
            for followers, first, last in calls:
                followers.note("replay", (first, last, batch.passes), {}, batch)
                followers.tell()
        return [followers for followers, _, _ in calls]


@contextmanager
def in_graph(led: "list[Followers]") -> Iterator[None]:
    """While it lasts, arguments of calls go from rank to rank beside their sums."""
    for followers in led:
        followers.is_in_graph = True
    try:
        yield
    finally:
        for followers in led:
            followers.is_in_graph = False


class _CallOrder:
    """The calls of a body, those of one node that follow one another as one."""

    def __init__(self) -> None:
        self.calls: list[_Calls] = []
        self._counts: dict[Followers, int] = {}

    def call(self, followers: "Followers") -> None:
        number = self._counts.get(followers, 0)
        self._counts[followers] = number + 1
        if self.calls and self.calls[-1][0] is followers:
            self.calls[-1] = (followers, self.calls[-1][1], number + 1)
        else:
            self.calls.append((followers, number, number + 1))

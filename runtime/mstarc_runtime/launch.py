"""Starts the ranks of a placement, wherever they run, and ends them.

One rank runs beside the conductor, in its thread: `turn` moves both. Several ranks, or one that a
server can start again, are processes of their own (`process_ranks`) that talk over sockets in a
private folder. However a run ends, `close` leaves no process and no socket behind.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from mstarc_runtime.assembly import (
    Extras,
    RunSettings,
    host_threads,
    make_implementations,
    make_via,
    make_worker,
    use_threads,
)
from mstarc_runtime.conductor import Conductor
from mstarc_runtime.engine.host import HostPool, ThreadPool
from mstarc_runtime.frames import Frame
from mstarc_runtime.loader import LoadedPlan, PlacementFacts
from mstarc_runtime.messages import Told
from mstarc_runtime.process_ranks import ProcessRanks
from mstarc_runtime.run_choices import START_TIMEOUT_S
from mstarc_runtime.supervision import Supervision
from mstarc_runtime.trace import RequestTrace
from mstarc_runtime.transport.local import LocalNetwork
from mstarc_runtime.transport.mailbox import CONDUCTOR
from mstarc_runtime.weights.progress import Progress
from mstarc_runtime.worker import Worker

_WAIT_S = 0.05


class Ranks(Protocol):
    """The ranks of a run, wherever they are."""

    conductor: Conductor

    @property
    def restarts(self) -> int:
        """Processes that were started again."""
        ...

    def turn(self) -> bool:
        """Lets everybody in this process work once; whether anybody did."""
        ...

    def wait(self, timeout_s: float) -> None: ...

    def close(self, *, at_once: bool = False) -> None:
        """Ends what runs; `at_once` without waiting for the step that it is at."""
        ...


class LocalRanks:
    """All ranks in this process, taking turns with the conductor."""

    def __init__(
        self,
        plan: LoadedPlan,
        placement: PlacementFacts,
        *,
        settings: RunSettings,
        progress: Progress,
        make_pool: Callable[[Callable[[], None]], HostPool] | None = None,
        extras: Extras | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        network = LocalNetwork(settings.high_water_mark)
        mailbox = network.mailbox(CONDUCTOR)
        make_pool = make_pool or (lambda wake: ThreadPool(host_threads(), wake))
        use_threads(settings.threads)
        self._pools = [make_pool(mailbox.wake) for _ in range(len(placement.processes) + 1)]
        self._mailbox = mailbox
        implementations = make_implementations(settings, progress, extras)
        self.conductor = Conductor(
            plan,
            placement,
            mailbox=mailbox,
            pool=self._pools[-1],
            via=make_via(plan, implementations),
        )
        self.workers: list[Worker] = [
            make_worker(
                plan,
                placement,
                facts,
                mailbox=network.mailbox(facts.process),
                pool=pool,
                settings=settings,
                progress=progress,
                extras=extras,
                implementations=implementations,
                say=say,
            )
            for facts, pool in zip(placement.processes, self._pools, strict=False)
        ]

    @property
    def restarts(self) -> int:
        return 0

    def turn(self) -> bool:
        did = False
        for worker in self.workers:
            did = worker.turn() or did
        return self.conductor.turn() or did

    def wait(self, timeout_s: float) -> None:
        for worker in self.workers:
            timeout_s = worker.most_wait_s(timeout_s)
        self._mailbox.wait(timeout_s)

    def close(self, *, at_once: bool = False) -> None:
        for pool in self._pools:
            pool.close()


@contextmanager
def launched(
    plan: LoadedPlan,
    placement: PlacementFacts,
    *,
    settings: RunSettings,
    progress: Progress,
    say: Callable[[str], None],
    start_timeout_s: float = START_TIMEOUT_S,
    supervision: Supervision | None = None,
) -> Iterator[Ranks]:
    """The ranks of a placement, ready; afterwards they are gone.

    With `supervision` each is a process, even if there is one, and is started again if it is lost.
    """
    ranks: LocalRanks | ProcessRanks
    began = time.monotonic()
    if len(placement.processes) == 1 and supervision is None:
        ranks = LocalRanks(plan, placement, settings=settings, progress=progress, say=say)
    else:
        ranks = ProcessRanks(
            plan,
            placement,
            settings=settings,
            progress=progress,
            say=say,
            start_timeout_s=start_timeout_s,
            supervision=supervision,
        )
    say(f"ready after {time.monotonic() - began:.1f} s")
    if settings.trace:
        ranks.conductor.trace = RequestTrace()
    try:
        yield ranks
    except BaseException:
        ranks.close(at_once=True)
        raise
    ranks.close()


def run_until_done(ranks: Ranks) -> None:
    """Turns until no request is pending."""
    while ranks.conductor.pending:
        if not ranks.turn():
            ranks.wait(_WAIT_S)


def ask_ranks(ranks: Ranks, *, with_trace: bool = False) -> list[tuple[Told, Frame]]:
    """What each process has run so far, and its trace; nothing of ranks that are gone."""
    conductor = ranks.conductor
    conductor.ask(with_trace=with_trace)
    while len(conductor.told) < len(conductor.there) and conductor.broken is None:
        if not ranks.turn():
            ranks.wait(_WAIT_S)
    return [told for _, told in sorted(conductor.told.items())]

"""Starts the ranks of a placement, waits until they are ready, notices when one is gone.

One rank runs beside the conductor, in its thread: `turn` moves both. Several ranks are processes
of their own that talk over sockets in a private folder; `check` looks whether each still lives.
However a run ends, `close` leaves no process and no socket behind.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

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
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import Frame
from mstarc_runtime.loader import LoadedPlan, PlacementFacts, ProcessFacts
from mstarc_runtime.messages import Told
from mstarc_runtime.settings import rank_environ
from mstarc_runtime.trace import RequestTrace
from mstarc_runtime.transport.local import LocalNetwork
from mstarc_runtime.transport.mailbox import CONDUCTOR, Mailbox
from mstarc_runtime.transport.sockets import SocketMailbox
from mstarc_runtime.weights.progress import Progress
from mstarc_runtime.worker import Worker

_WAIT_S = 0.05
_STOP_S = 2.0
START_TIMEOUT_S = 900.0


class Ranks(Protocol):
    """The ranks of a run, wherever they are."""

    conductor: Conductor

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

    def turn(self) -> bool:
        did = False
        for worker in self.workers:
            did = worker.turn() or did
        return self.conductor.turn() or did

    def wait(self, timeout_s: float) -> None:
        self._mailbox.wait(timeout_s)

    def close(self, *, at_once: bool = False) -> None:
        for pool in self._pools:
            pool.close()


class ProcessRanks:
    """A process a rank, and the conductor here."""

    def __init__(
        self,
        plan: LoadedPlan,
        placement: PlacementFacts,
        *,
        settings: RunSettings,
        progress: Progress,
        say: Callable[[str], None],
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._placement = placement
        self._say = say
        self._start_timeout_s = start_timeout_s
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = _folder_of_sockets()
        self._mailbox: Mailbox | None = None
        self._pool: HostPool | None = None
        try:
            mailbox = self._mailbox = _mailbox(self._folder, settings)
            pool = self._pool = ThreadPool(host_threads(), mailbox.wake)
            with _interrupts_wait():
                for facts in placement.processes:
                    self._processes.append(
                        _spawn(plan, placement, facts, folder=self._folder, settings=settings)
                    )
            via = make_via(plan, make_implementations(settings, progress))
            self.conductor = Conductor(plan, placement, mailbox=mailbox, pool=pool, via=via)
            self._wait_until_ready()
        except BaseException:
            self.close(at_once=True)
            raise

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def turn(self) -> bool:
        self.check()
        return self.conductor.turn()

    def wait(self, timeout_s: float) -> None:
        assert self._mailbox is not None
        self._mailbox.wait(timeout_s)

    def check(self) -> None:
        """Tells the conductor of a rank whose process has ended."""
        if self.conductor.broken is not None:
            return
        for facts, process in zip(self._placement.processes, self._processes, strict=True):
            status = process.poll()
            if status is not None:
                # What it has said last may name the reason.
                self.conductor.turn()
                if self.conductor.broken is None:
                    self.conductor.lose(_died(facts, process.pid, status))
                return

    def close(self, *, at_once: bool = False) -> None:
        """Ends the processes, kindly at first, and removes their sockets."""
        with contextlib.suppress(AttributeError):  # the conductor may not have been made
            if not at_once and self.conductor.broken is None:
                self.conductor.stop()
                _wait_for(self._processes, _STOP_S)
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self._pool is not None:
            self._pool.close()
        if self._mailbox is not None:
            self._mailbox.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        conductor = self.conductor
        while len(conductor.ready) < len(self._processes):
            self.wait(_WAIT_S)
            conductor.turn()
            while conductor.progress:
                self._say(conductor.progress.popleft())
            self.check()
            if conductor.broken is not None:
                raise _start_failed(conductor.broken)
            if time.monotonic() > deadline:
                late = next(
                    facts
                    for facts in self._placement.processes
                    if facts.process not in conductor.ready
                )
                raise RuntimeFailure(
                    "MS9303",
                    f"{late} was not ready after {self._start_timeout_s:.0f} s",
                    helps=["look at what it printed above", "`--start-timeout` gives it longer"],
                )


@contextmanager
def launched(
    plan: LoadedPlan,
    placement: PlacementFacts,
    *,
    settings: RunSettings,
    progress: Progress,
    say: Callable[[str], None],
    start_timeout_s: float = START_TIMEOUT_S,
) -> Iterator[Ranks]:
    """The ranks of a placement, ready; afterwards they are gone."""
    ranks: LocalRanks | ProcessRanks
    began = time.monotonic()
    if len(placement.processes) == 1:
        ranks = LocalRanks(plan, placement, settings=settings, progress=progress, say=say)
    else:
        ranks = ProcessRanks(
            plan,
            placement,
            settings=settings,
            progress=progress,
            say=say,
            start_timeout_s=start_timeout_s,
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
    while len(conductor.told) < len(conductor.placement.processes) and conductor.broken is None:
        if not ranks.turn():
            ranks.wait(_WAIT_S)
    return [told for _, told in sorted(conductor.told.items())]


def settings_to_json(settings: RunSettings) -> str:
    """For the command line of a rank's process."""
    return json.dumps(
        {
            "cache_dir": str(settings.cache_dir),
            "deterministic": settings.deterministic,
            "threads": settings.threads,
            "tile_rows": settings.tile_rows,
            "high_water_mark": settings.high_water_mark,
            "sources": dict(settings.sources),
            "buckets": list(settings.buckets),
            "eager": list(settings.eager),
            "require_graphs": settings.require_graphs,
            "trace": settings.trace,
        }
    )


def settings_from_json(text: str) -> RunSettings:
    content: Mapping[str, Any] = json.loads(text)
    return RunSettings(**{**content, "cache_dir": Path(content["cache_dir"])})


def _folder_of_sockets() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="mstarc-"))
    except OSError as error:
        raise _no_socket("any folder for temporary files", error) from error


def _mailbox(folder: Path, settings: RunSettings) -> SocketMailbox:
    try:
        return SocketMailbox(folder, CONDUCTOR, settings.high_water_mark)
    except OSError as error:
        raise _no_socket(f"`{folder}`", error) from error


def _no_socket(where: str, error: OSError) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9308",
        f"no socket can be made in {where}",
        notes=[f"the system says: {error.strerror}"],
        helps=["set `TMPDIR` to a folder of yours with a short path"],
    )


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C comes after this: no process is started that `close` would not know of.

    Processes that are started begin with it waiting too, until they ignore it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _spawn(
    plan: LoadedPlan,
    placement: PlacementFacts,
    facts: ProcessFacts,
    *,
    folder: Path,
    settings: RunSettings,
) -> subprocess.Popen[bytes]:
    command = [
        *(sys.executable, "-m", "mstarc_runtime.rank_main"),
        *(str(plan.folder), placement.name, str(facts.process), str(folder)),
        settings_to_json(settings),
    ]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=rank_environ())


def _wait_for(processes: list[subprocess.Popen[bytes]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))


def _died(facts: ProcessFacts, pid: int, status: int) -> RuntimeFailure:
    if status < 0:
        how = f"killed by {signal.Signals(-status).name}"
    else:
        how = f"exit status {status}"
    return RuntimeFailure(
        "MS9301",
        f"the process of {facts} ended: {how}",
        notes=[f"its process id was {pid}"],
        helps=["if the machine ran out of memory, use fewer requests or another placement"]
        if status == -signal.SIGKILL
        else [],
    )


def _start_failed(failure: RuntimeFailure) -> RuntimeFailure:
    if failure.code != "MS9301":
        return failure
    return RuntimeFailure(
        "MS9302",
        f"{failure.message}, before it was ready",
        notes=failure.notes,
        helps=failure.helps,
    )


def parent_is_gone(parent: int) -> bool:
    """Whether the process that started this one has ended."""
    return os.getppid() != parent

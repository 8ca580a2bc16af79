"""A process a rank, and the conductor here: begun, watched, started again, ended.

`check` looks at every process between two turns: has it ended, is it silent, does a step of it last
for ever? Without supervision the first one that is lost loses the run. With it, what was lost is
killed together with those that hold parts of the same nodes (they wait for it inside a layer), its
requests end, and its successors are started; the other processes go on, and only give back what
these requests had there.
"""

import contextlib
import shutil
import time
from collections.abc import Callable

from mstarc_runtime.assembly import RunSettings, host_threads, make_implementations, make_via
from mstarc_runtime.conductor import Conductor
from mstarc_runtime.engine.host import HostPool, ThreadPool
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import LoadedPlan, PlacementFacts, ProcessFacts
from mstarc_runtime.spawning import (
    RankProcess,
    conductors_mailbox,
    died,
    folder_of_sockets,
    forget_groups,
    interrupts_wait,
    spawn,
)
from mstarc_runtime.supervision import Restarts, Supervision
from mstarc_runtime.transport.mailbox import Mailbox
from mstarc_runtime.weights.progress import Progress

_WAIT_S = 0.05
_STOP_S = 2.0
_CHECK_S = 0.01
_SUPERVISION = Supervision(restarts=0)


class ProcessRanks:
    """All ranks as processes. Without `supervision` none is started again."""

    def __init__(
        self,
        plan: LoadedPlan,
        placement: PlacementFacts,
        *,
        settings: RunSettings,
        progress: Progress,
        say: Callable[[str], None],
        start_timeout_s: float,
        supervision: Supervision | None = None,
    ) -> None:
        self._plan = plan
        self._placement = placement
        self._settings = settings
        self._say = say
        self._start_timeout_s = start_timeout_s
        self._supervision = supervision or _SUPERVISION
        self._restarts = Restarts(self._supervision)
        # Processes that live or died and are not replaced yet, by number; when to replace those.
        self._processes: dict[int, RankProcess] = {}
        self._due_s: dict[frozenset[int], float] = {}
        # How many have had a process's number before the one that lives or is due.
        self._successors = {facts.process: 0 for facts in placement.processes}
        self._together = _together(placement)
        self._check_again_s = 0.0
        self._folder = folder_of_sockets()
        self._mailbox: Mailbox | None = None
        self._pool: HostPool | None = None
        try:
            mailbox = self._mailbox = conductors_mailbox(self._folder, settings)
            pool = self._pool = ThreadPool(host_threads(), mailbox.wake)
            with interrupts_wait():
                for facts in placement.processes:
                    self._begin(facts, first_request=0)
            via = make_via(plan, make_implementations(settings, progress))
            self.conductor = Conductor(plan, placement, mailbox=mailbox, pool=pool, via=via)
            self._wait_until_ready()
            self.conductor.goes_on_without = supervision is not None
        except BaseException:
            self.close(at_once=True)
            raise

    @property
    def restarts(self) -> int:
        return self._restarts.total

    @property
    def pids(self) -> list[int]:
        return [process.popen.pid for process in self._processes.values()]

    def turn(self) -> bool:
        now_s = time.monotonic()
        if now_s >= self._check_again_s:
            self._check_again_s = now_s + _CHECK_S
            self.check()
        return self.conductor.turn()

    def wait(self, timeout_s: float) -> None:
        assert self._mailbox is not None
        self._mailbox.wait(timeout_s)

    def check(self) -> None:
        """Looks after every process, and starts those whose time has come."""
        conductor = self.conductor
        while conductor.progress:
            self._say(conductor.progress.popleft())
        for process in list(self._processes.values()):
            failure = None if self._is_over else self._trouble(process)
            if failure is not None:
                self._lose(process, failure)
        if self._is_over:
            return
        now_s = time.monotonic()
        for numbers in [numbers for numbers, due_s in self._due_s.items() if now_s >= due_s]:
            del self._due_s[numbers]
            self._begin_again(numbers)

    def close(self, *, at_once: bool = False) -> None:
        """Ends the processes, kindly at first, and removes their sockets."""
        with contextlib.suppress(AttributeError):  # the conductor may not have been made
            if not at_once and self.conductor.broken is None:
                self.conductor.stop()
                self._wait_for_ends()
        for process in self._processes.values():
            process.kill()
        self._processes.clear()
        if self._pool is not None:
            self._pool.close()
        if self._mailbox is not None:
            self._mailbox.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _is_over(self) -> bool:
        return self.conductor.broken is not None

    def _begin(self, facts: ProcessFacts, *, first_request: int) -> None:
        self._processes[facts.process] = spawn(
            self._plan,
            self._placement,
            facts,
            folder=self._folder,
            settings=self._settings,
            successors=self._successors,
            first_request=first_request,
            now_s=time.monotonic(),
        )

    def _begin_again(self, numbers: frozenset[int]) -> None:
        with interrupts_wait():
            for facts in self._placement.processes:
                if facts.process in numbers:
                    self._begin(facts, first_request=self.conductor.next_number)

    def _trouble(self, process: RankProcess) -> RuntimeFailure | None:
        """Why a process can't be counted on; None where all is well or it is known already."""
        if any(process.facts.process in numbers for numbers in self._due_s):
            return None
        status = process.status
        if status is not None:
            # What it has said last may name the reason.
            self.conductor.turn()
            said = self.conductor.last_words.pop(process.facts.process, None)
            return said or died(process.facts, process.popen.pid, status)
        silent_s, turn_s = process.pulse.look()
        if silent_s > self._supervision.silence_s:
            return _silent(process, f"it has not moved for {silent_s:.0f} s")
        if turn_s > self._supervision.turn_s:
            return _silent(process, f"one step of it has lasted for {turn_s:.0f} s")
        is_ready = process.facts.process in self.conductor.ready
        if not is_ready and time.monotonic() - process.began_s > self._start_timeout_s:
            return self._late(process.facts)
        return None

    def _lose(self, process: RankProcess, failure: RuntimeFailure) -> None:
        conductor = self.conductor
        if self._is_over:
            return
        numbers = next(unit for unit in self._together if process.facts.process in unit)
        for number in numbers:
            self._processes[number].kill()
        if not conductor.goes_on_without:
            conductor.lose(failure)
            return
        wait_s = self._restarts.wait_s(time.monotonic())
        if wait_s is None:
            conductor.lose(_given_up(failure, self.restarts, self._supervision))
            return
        when = "now" if not wait_s else f"in {wait_s:.0f} s"
        self._say(f"lost: {failure.message}; it is started again {when}")
        for number in numbers:
            self._successors[number] += 1
        conductor.lose_some({number: self._successors[number] for number in numbers}, failure)
        forget_groups(self._folder, numbers)
        self._due_s[numbers] = time.monotonic() + wait_s

    def _wait_until_ready(self) -> None:
        conductor = self.conductor
        while len(conductor.ready) < len(self._processes):
            self.wait(_WAIT_S)
            conductor.turn()
            self.check()
            if conductor.broken is not None:
                raise _start_failed(conductor.broken)

    def _wait_for_ends(self) -> None:
        deadline_s = time.monotonic() + _STOP_S
        for process in self._processes.values():
            while process.status is None and time.monotonic() < deadline_s:
                time.sleep(_CHECK_S)

    def _late(self, facts: ProcessFacts) -> RuntimeFailure:
        return RuntimeFailure(
            "MS9303",
            f"{facts} was not ready after {self._start_timeout_s:.0f} s",
            helps=["look at what it printed above", "`--start-timeout` gives it longer"],
        )


def _together(placement: PlacementFacts) -> tuple[frozenset[int], ...]:
    """The processes that are lost together: those of a copy that hold parts of the same nodes."""
    units = {facts.process: {facts.process} for facts in placement.processes}
    for group in placement.groups:
        for copy in {facts.copy for facts in placement.processes}:
            members = [
                facts.process
                for facts in placement.processes
                if facts.rank in group.ranks and facts.copy == copy
            ]
            joined: set[int] = set().union(*(units[member] for member in members))
            for member in joined:
                units[member] = joined
    return tuple({frozenset(unit) for unit in units.values()})


def _silent(process: RankProcess, how: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9320",
        f"the process of {process.facts} is stuck: {how}",
        notes=[f"its process id was {process.popen.pid}; it was killed"],
    )


def _given_up(failure: RuntimeFailure, total: int, supervision: Supervision) -> RuntimeFailure:
    if not supervision.restarts:
        return failure
    return RuntimeFailure(
        "MS9321",
        f"{failure.message}, and it is not started again",
        notes=[
            f"{total} processes were started again, {supervision.restarts} of them within "
            f"{supervision.window_s:.0f} s",
            f"the last was lost with {failure.code}",
            *failure.notes,
        ],
        helps=[*failure.helps, "`--restarts` and `--restart-window` say how often is too often"],
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

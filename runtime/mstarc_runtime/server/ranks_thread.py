"""The ranks in a thread of their own: others ask for things to be done there, between two turns.

The thread launches the ranks, turns them until it is told to stop, and ends them. `call` may be
used from any thread. While the successor of a process that was lost is started, `missing` says why.
When a rank is lost for good, or the thread fails, every request ends with the reason, and `failure`
has it; the thread then goes on only to say so.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal

from mstarc_runtime.conductor import Conductor
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.launch import Ranks

State = Literal["starting", "ready", "restarting", "lost", "ended"]
Job = Callable[[Conductor], None]

_WAIT_S = 0.05


class RanksThread:
    """Ranks that `launch` makes, turned in a thread. `on_change` is called there."""

    def __init__(
        self,
        launch: Callable[[], AbstractContextManager[Ranks]],
        *,
        on_change: Callable[[State], None],
    ) -> None:
        self.state: State = "starting"
        self.failure: RuntimeFailure | None = None
        # Why a process is not there, and why nothing can be started now: not the same with copies.
        self.missing: RuntimeFailure | None = None
        self.blocked: RuntimeFailure | None = None
        self.restarts = 0
        # When the thread last went round, by the monotonic clock: seconds.
        self.turned_s = time.monotonic()
        self._launch = launch
        self._on_change = on_change
        self._jobs: deque[tuple[Job, Callable[[RuntimeFailure], None]]] = deque()
        self._lock = threading.Lock()
        self._ranks: Ranks | None = None
        self._stops = False
        self._thread = threading.Thread(target=self._work, name="ranks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the ranks; returns when they are gone."""
        self._stops = True
        self._wake()
        self._thread.join()

    def call(self, job: Job, otherwise: Callable[[RuntimeFailure], None]) -> None:
        """Has the thread do something; `otherwise` is called if the ranks are gone by then."""
        with self._lock:
            is_gone = self.state == "ended"
            if not is_gone:
                self._jobs.append((job, otherwise))
        if is_gone:
            otherwise(self._gone())
        else:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._ranks is not None:
                self._ranks.conductor.mailbox.wake()

    def _work(self) -> None:
        try:
            with self._launch() as ranks:
                with self._lock:
                    self._ranks = ranks
                self._change("ready")
                try:
                    while not self._stops:
                        self._turn(ranks)
                finally:
                    with self._lock:
                        self._ranks = None
        except RuntimeFailure as failure:
            self.failure = self.failure or failure
        except Exception as error:
            traceback.print_exc()
            self.failure = self.failure or _ours(error)
        finally:
            with self._lock:
                self.state = "ended"
                left = list(self._jobs)
                self._jobs.clear()
            for _, otherwise in left:
                otherwise(self._gone())
            self._on_change("ended")

    def _turn(self, ranks: Ranks) -> None:
        self.turned_s = time.monotonic()
        conductor = ranks.conductor
        did = bool(self._jobs)
        try:
            while self._jobs:
                job, otherwise = self._jobs.popleft()
                self._do(job, otherwise, conductor)
            did = ranks.turn() or did
        except Exception as error:
            if conductor.broken is not None:
                raise
            traceback.print_exc()
            conductor.lose(_ours(error))
        self._note_losses(ranks)
        if not did and not self._jobs:
            ranks.wait(_WAIT_S)

    def _do(self, job: Job, otherwise: Callable[[RuntimeFailure], None], at: Conductor) -> None:
        try:
            job(at)
        except Exception as error:
            otherwise(_ours(error))
            raise

    def _note_losses(self, ranks: Ranks) -> None:
        conductor = ranks.conductor
        if conductor.broken is not None:
            if self.state != "lost":
                self.failure = conductor.broken
                self._change("lost")
            return
        self.restarts = ranks.restarts
        self.blocked = conductor.cannot_start()
        self.missing = next(iter(conductor.away.values()), None)
        state: State = "ready" if self.missing is None else "restarting"
        if self.state != state:
            self._change(state)

    def _change(self, state: State) -> None:
        self.state = state
        self._on_change(state)

    def _gone(self) -> RuntimeFailure:
        return self.failure or RuntimeFailure("MS9314", "the server is ending")


def _ours(error: Exception) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9301",
        f"the runtime failed, not your plan: {type(error).__name__}: {error}",
        notes=["the server's log says where"],
    )

"""Lets requests in, follows them to their end, and knows how the ranks are.

A request is taken if the ranks are ready and the queue has room: the plan's slots and `queue` more.
What is taken is given back when the ranks have released it, whether it has ended, failed or been
cancelled by a client that went away.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from mstarc_runtime.conductor import Conductor
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import Frame
from mstarc_runtime.loader import LoadedPlan, PlacementFacts
from mstarc_runtime.messages import Told
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.server.abilities import abilities_of
from mstarc_runtime.server.admission import Admission
from mstarc_runtime.server.followed import Followed
from mstarc_runtime.server.limits import Limits
from mstarc_runtime.server.live import Event, Live
from mstarc_runtime.server.log import Log
from mstarc_runtime.server.media_pool import MediaPool
from mstarc_runtime.server.metrics import Metrics
from mstarc_runtime.server.page import page_files
from mstarc_runtime.server.ranks_thread import RanksThread
from mstarc_runtime.server.tracing import NoTracing, Tracing
from mstarc_runtime.server.watching import Watch
from mstarc_schedule.fairness import Turn

_ASK_S = 2.0
_LOOK_S = 0.01
# The ranks' thread goes round many times a second, unless ranks run in it.
_STUCK_S = 600.0
# How long whoever watches waits for a worker that is busy.
_LATELY_S = 0.2
# How much the last request's time weighs in what the next one is told to wait.
_WEIGHT = 0.2


class Service:
    """A plan that is served. Everything is called in asyncio's thread."""

    def __init__(
        self, plan: LoadedPlan, placement: PlacementFacts, ranks: RanksThread, limits: Limits
    ) -> None:
        self.plan = plan
        self.placement = placement
        self.abilities = abilities_of(plan)
        self.limits = limits
        self.metrics = Metrics()
        self.log = Log()
        self.tracing: Tracing = NoTracing()
        self.watch = Watch(self)
        self.page = page_files(plan.folder)
        self.is_draining = False
        # Answers that are on their way over WebSockets.
        self.talking = 0
        self.began_s = time.time()
        self.media = MediaPool(limits.media, limits.media_processes)
        self._admission = Admission(limits, placement.max_requests)
        self._ranks = ranks
        self._taken: dict[Live, Followed] = {}
        self._usual_s = 1.0
        self._asking: asyncio.Task[dict[int, tuple[Told, Frame]]] | None = None
        self._found: dict[int, tuple[Told, Frame]] = {}
        self.metrics.running.set_function(lambda: min(self.taken, placement.max_requests))
        self.metrics.waiting.set_function(lambda: max(0, self.taken - placement.max_requests))

    @property
    def taken(self) -> int:
        """Requests that are not over."""
        return len(self._taken)

    # Requests

    def submit(self, prepared: PreparedRequest, route: str) -> Live:
        """Takes a request. Fails with MS9213, MS9310, MS9314, or as a rank has."""
        return self.submit_all([prepared], route)[0]

    def submit_all(self, prepared: Sequence[PreparedRequest], route: str) -> list[Live]:
        """Takes several requests or none. Fails as `submit`."""
        self.check_ready()
        for one in prepared:
            one.admit(self.plan)
        turn, due_s = self._admission.check(len(prepared), lambda: self.retry_after_s)
        return [self._take(one, route, turn, due_s) for one in prepared]

    def _take(self, prepared: PreparedRequest, route: str, turn: Turn, due_s: float | None) -> Live:
        live = Live(
            asyncio.get_running_loop(),
            most_bytes=self.limits.unread_bytes,
            give_up=self.cancel,
            on_over=self._over,
        )
        self._admission.took(live, turn, due_s)
        followed = self._taken[live] = Followed(route=route, live=live)
        followed.times.is_traced = self.tracing.wants(followed.call)
        if followed.call is not None:
            followed.call.requests.append(followed)

        def start(conductor: Conductor) -> None:
            try:
                live.number = conductor.submit(
                    prepared,
                    live,
                    on_tokens=live.count_tokens,
                    read=live.read,
                    times=followed.times,
                    turn=turn,
                )
            except RuntimeFailure as failure:
                live.failed(failure)

        self._ranks.call(start, live.failed)
        return live

    def cancel(self, live: Live) -> None:
        """Ends a request early, from any thread. Harmless when it is over."""

        def end(conductor: Conductor) -> None:
            if live.number is not None:
                conductor.cancel(live.number)

        if not live.is_over:
            self._ranks.call(end, lambda failure: None)

    async def whole(self, live: Live) -> list[Event]:
        """All that a request makes. Whoever stops listening ends it. Raises its failure."""
        taken = self._taken.get(live)
        made: list[Event] = []
        try:
            while events := await live.take():
                if not made:
                    self._first(taken)
                for event in events:
                    live.took(event)
                made += events
        finally:
            self.cancel(live)
        return made

    async def events(self, live: Live) -> AsyncGenerator[Event, None]:
        """What a request makes. Whoever stops listening ends it. Raises its failure."""
        taken = self._taken.get(live)
        try:
            while events := await live.take():
                self._first(taken)
                for event in events:
                    live.took(event)
                    yield event
        finally:
            self.cancel(live)

    def _first(self, taken: Followed | None) -> None:
        """Notes when the first of what a request makes has come."""
        if taken is not None and taken.first_output_s is None:
            taken.first_output_s = taken.seconds
            self.metrics.first(taken)

    def ender(self, live: Live) -> Callable[[], None]:
        """What ends a request if it is not over."""
        return lambda: self.cancel(live)

    @property
    def retry_after_s(self) -> int:
        """When a slot for one more request may be free."""
        ahead = self.taken / max(1, self.placement.max_requests)
        return max(1, min(60, math.ceil(self._usual_s * ahead)))

    def _over(self, live: Live) -> None:
        taken = self._taken.pop(live)
        self._admission.over(live)
        taken.ended_s = time.monotonic()
        self.metrics.over(taken)
        self.tracing.request_over(taken)
        if taken.outcome == "finished":
            self._usual_s += _WEIGHT * (taken.seconds - self._usual_s)

    def requests(self) -> list[dict[str, Any]]:
        """Those that are not over, in the order of their coming."""
        return [taken.shown() for taken in self._taken.values()]

    # The ranks

    def check_ready(self) -> None:
        """Fails with MS9314, or with what a rank has failed with."""
        if self._ranks.failure is not None:
            raise self._ranks.failure.again()
        if self._ranks.blocked is not None:
            raise self._ranks.blocked.again(helps=["it is being started again; `/ready` says when"])
        if self.is_draining or self._ranks.state == "ended":
            raise RuntimeFailure("MS9314", "the server is ending", helps=["ask another one"])
        if self._ranks.state == "starting":
            raise RuntimeFailure(
                "MS9314", "the server is loading weights", helps=["`/ready` says when it is ready"]
            )

    @property
    def state(self) -> str:
        """starting, ready, restarting, draining, lost or ended."""
        if self.is_draining and self._ranks.state in ("ready", "restarting"):
            return "draining"
        return self._ranks.state

    @property
    def failure(self) -> RuntimeFailure | None:
        """What was lost: for good, or until it is started again."""
        return self._ranks.failure or self._ranks.missing

    @property
    def is_beyond_help(self) -> bool:
        """Whether only a new server helps: ranks are gone for good, or their thread is stuck."""
        if self._ranks.state in ("lost", "ended"):
            return True
        stuck_s = time.monotonic() - self._ranks.turned_s
        return self._ranks.state != "starting" and stuck_s > _STUCK_S

    @property
    def restarts(self) -> int:
        """Processes that were started again."""
        return self._ranks.restarts

    async def ask_workers(self) -> dict[int, tuple[Told, Frame]]:
        """What each worker says of itself; those are missing that do not answer in two seconds."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def held(self) -> dict[str, Any]:
        """What requests hold: in the conductor, and in each worker."""
        told = await self.ask_workers()
        snapshot = await self._in_conductor(lambda conductor: conductor.snapshot())
        workers = {str(process): json.loads(each.held) for process, (each, _) in told.items()}
        return {"conductor": snapshot, "workers": workers}

    async def workers(self) -> list[dict[str, Any]]:
        """How each worker is: whether it answers, and what its requests hold."""
        told = await self.ask_workers()
        found = []
        for facts in self.placement.processes:
            said = told.get(facts.process)
            entry: dict[str, Any] = {
                "process": facts.process,
                "rank": facts.rank,
                "copy": facts.copy,
                "device": self.placement.devices[facts.device],
                "answers": said is not None,
            }
            if said is not None:
                entry["requests"] = json.loads(said[0].held)["requests"]
            found.append(entry)
        return found

    async def measure(self) -> None:
        """Has the metrics tell what the workers say."""
        told = await self.ask_workers()
        silent = len(self.placement.processes) - len(told)
        said = {process: each for process, (each, _) in told.items()}
        self.metrics.workers.take(said, silent=silent, restarts=self.restarts)

    async def told_lately(self) -> dict[int, Told]:
        """What workers say of themselves now; those are missing that are busy."""
        asking = asyncio.ensure_future(self.ask_workers())
        await asyncio.wait({asking}, timeout=_LATELY_S)
        return {process: each for process, (each, _) in self._found.items()}

    async def _ask(self) -> dict[int, tuple[Told, Frame]]:
        self._found = {}
        if self._ranks.state not in ("ready", "restarting"):
            return {}

        def ask(conductor: Conductor) -> int:
            conductor.ask(with_trace=False, watch_s=self.watch.lasts_s)
            return len(conductor.there)

        def told(conductor: Conductor) -> dict[int, tuple[Told, Frame]]:
            return dict(conductor.told)

        deadline = time.monotonic() + _ASK_S
        asked = await self._in_conductor(ask, _ASK_S) or 0
        found: dict[int, tuple[Told, Frame]] = {}
        while len(found) < asked and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
            found = self._found = await self._in_conductor(told, _ASK_S) or {}
        return found

    async def _in_conductor(self, job: Any, timeout_s: float = _ASK_S) -> Any:
        """What a job in the ranks' thread gives; None if it can't be done in time."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any) -> None:
            if not result.done():
                result.set_result(value)

        def do(conductor: Conductor) -> None:
            loop.call_soon_threadsafe(settle, job(conductor))

        self._ranks.call(do, lambda failure: _settle_later(loop, settle))
        try:
            return await asyncio.wait_for(result, timeout_s)
        except TimeoutError:
            return None


def _settle_later(loop: asyncio.AbstractEventLoop, settle: Any) -> None:
    loop.call_soon_threadsafe(settle, None)

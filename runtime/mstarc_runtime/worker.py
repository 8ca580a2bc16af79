"""One rank of a plan at work: messages in, steps, messages out.

`turn` takes what has arrived, gives the step whose turn it is to `stepping`, and says whether there
was anything to do. A row is (machine, slot); it goes from step to step by `Router`, and nobody asks
the conductor. A request's end, whichever way, is a Release: rows are dropped, the plan's `release`
gives back what it held, and Released says so.

Start with `turn`. Not here: how a step runs (stepping), who waits where (scheduler), what a message
means for streams between ranks (courier).
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import torch

from mstarc_runtime.courier import RankCourier
from mstarc_runtime.engine.builder import RankBuilder, RankParts, TorchOps
from mstarc_runtime.engine.coverage import Coverage
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.engine.host import HostPool
from mstarc_runtime.engine.later_sizes import LaterSizes
from mstarc_runtime.frames import unpack_value
from mstarc_runtime.grouping import Connect, Groups
from mstarc_runtime.live import LiveRequest, RankPlan
from mstarc_runtime.messages import (
    Closed,
    Failed,
    Items,
    Left,
    LentRing,
    MachineDone,
    Marked,
    Message,
    Moved,
    NodeActions,
    ReadTo,
    Release,
    Released,
    Settle,
    Start,
    Stop,
    Succeeded,
    Tell,
)
from mstarc_runtime.moves import Mover
from mstarc_runtime.peer_memory import PeerMemory
from mstarc_runtime.plan_api import Builder, DeviceStep, HostStep
from mstarc_runtime.preempting import Preempter
from mstarc_runtime.routing import Router
from mstarc_runtime.scheduler import Scheduler
from mstarc_runtime.step_costs import StepCosts
from mstarc_runtime.step_failures import describe
from mstarc_runtime.stepping import Stepper, goes_on
from mstarc_runtime.telling import Teller
from mstarc_runtime.trace import HostTrace
from mstarc_runtime.transport.mailbox import CONDUCTOR, Mailbox, Parcel
from mstarc_runtime.visits import Visits
from mstarc_schedule.batching import BatchPolicy

_AWAIT_S = 0.05
# Parcels that are taken in before a step has its turn: where more come than that, steps go on, too.
_MOST_PARCELS = 64


class Worker:
    """A rank. Owns its slots' requests, its stations and its storage."""

    def __init__(
        self,
        plan: RankPlan,
        *,
        mailbox: Mailbox,
        pool: HostPool,
        executor: Executor,
        policy: BatchPolicy,
        device: torch.device,
        connect: Connect,
        build: Callable[["Worker"], RankBuilder],
        first_request: int = 0,
    ) -> None:
        self.plan = plan
        self.mailbox = mailbox
        self.pool = pool
        self.executor = executor
        self.coverage = Coverage()
        self.costs = StepCosts(is_device_here=device.type == "cpu")
        self.teller = Teller(self)
        # Sizes of regions that it captures while nobody is served.
        self.later = LaterSizes()
        # Seconds that parts of its start took, by name.
        self.start_s: dict[str, float] = {}
        self.trace: HostTrace | None = None
        self.peer_memory: PeerMemory | None = None
        self.device = device
        self.live: dict[int, LiveRequest] = {}
        # Goes up whenever anything happens that a resident group may not have counted on.
        self.generation = 0
        # The same of what only makes more possible: items that arrive, room that is made.
        self.arrivals = 0
        self.has_stopped = False
        self._early: dict[int, list[Parcel]] = {}
        self._last_request: dict[int, int] = {}
        # What comes for requests before this one was for a process that had this one's number.
        self._before_all = first_request - 1
        self._idle_turns = 0
        self._deferred: deque[Parcel] = deque()
        self.courier = RankCourier(self)
        self.mover = Mover(self)
        self.preempter = Preempter(self)
        self.groups = Groups(
            self, rank=plan.rank, process=plan.process, peers=plan.peers, connect=connect
        )
        builder = build(self)
        self.parts: RankParts = builder.parts
        self.rank = plan.rank_class()
        self.rank.ops = TorchOps()
        self.rank.options = lambda slot: self.live[slot].options
        # The protocols name what plans see of a batch; the parts here know all of it.
        self.rank.build(cast(Builder, builder))
        self.scheduler = Scheduler(
            [step for step in plan.steps if isinstance(step, (DeviceStep, HostStep))],
            policy,
            slots=plan.slots,
            passes_left=lambda loop: self.parts.passes_left[loop],
            goes_on=lambda step: goes_on(self, step),
        )
        self.router = Router(self, plan.steps)
        self.stepper = Stepper(self)

    # One turn

    def turn(self) -> bool:
        """Does what there is to do, at most one step; False if there was nothing."""
        trace = self.trace
        self.costs.begin()
        if trace is not None:
            trace.begin_turn()
        did = self._receive()
        if self.mover.waiting and self.mover.retry():
            self.generation += 1
            did = True
        if self.pool.running and self.pool.drain():
            did = True
        did = self.stepper.host.cohorts.let_go() or did
        if self.stepper.flights.count:
            did = self.stepper.land_flights() or did
        # Whoever can't send what it has made makes no more; it still takes in what comes.
        station = None if self.mailbox.backlog else self.scheduler.next()
        if station is not None:
            if trace is not None:
                trace.phase("receive")
            if self.teller.is_watched:
                self.teller.again()
            self.stepper.run(station)
            did = True
        elif self.stepper.flights.count:
            self.stepper.await_flights()
            did = True
        self.courier.flush()
        self.groups.flush()
        if station is not None:
            self.costs.end(station.step.id)
        if did:
            self._idle_turns = 0
        elif self.later.count and not self.live:
            self.later.capture_next(self)
            did = True
        elif (self.scheduler.starved() or self.mover.waiting) and not self.mailbox.backlog:
            self._idle_turns = self.preempter.end_starvation(self._idle_turns + 1)
        if trace is not None:
            trace.end_turn(did, "turn" if station is None else station.step.name)
        return did

    def await_message(self, wanted: Callable[[Message], bool], timeout_s: float) -> Message | None:
        """The first such message; what comes before it is handled later. None after the time."""
        deadline = time.monotonic() + timeout_s
        while True:
            parcel = self.mailbox.receive()
            if parcel is not None and wanted(parcel.message):
                return parcel.message
            if parcel is not None:
                self._deferred.append(parcel)
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.mailbox.wait(min(left, _AWAIT_S))

    def wait(self, timeout_s: float) -> None:
        """Until something arrives or a host job ends."""
        self.mailbox.wait(self.most_wait_s(timeout_s))

    def most_wait_s(self, timeout_s: float) -> float:
        """How long it may be left alone where nothing arrives."""
        return self.stepper.host.cohorts.most_wait_s(timeout_s)

    # Requests

    def fail(self, slot: int, error: BaseException, step: DeviceStep | HostStep | None) -> None:
        """Ends a request on this rank with an error; the conductor ends it everywhere."""
        live = self.live.get(slot)
        if live is None or live.is_ending:
            return
        live.is_ending = True
        self.drop_rows(slot)
        said = describe(error, step, self.plan)
        self.mailbox.send(
            CONDUCTOR,
            Failed(
                self.plan.rank,
                slot,
                live.request,
                said.code,
                said.message,
                said.notes,
                said.helps,
            ),
        )

    def machine_done(self, slot: int, machine: str) -> None:
        request = self.live[slot].request
        self.mailbox.send(CONDUCTOR, MachineDone(self.plan.rank, slot, request, machine))

    def drop_rows(self, slot: int) -> None:
        self.stepper.ahead.give_back()
        self.scheduler.drop(slot)
        self.mover.forget(slot)
        self.generation += 1
        self.stepper.finish_flights(slot)

    def job_ended(self, live: LiveRequest) -> bool:
        """Counts a host job as ended; whether its request still wants what it did."""
        live.jobs -= 1
        if self.live.get(live.slot) is not live:
            return False
        if live.is_released and not live.jobs:
            self._give_back(live)
        return not live.is_ending

    # Streams: what a ring tells

    def reader_woken(self, stream: str, slot: int, has_chunk: bool) -> None:
        self.router.wake_readers(stream, slot, has_chunk)

    def room_made(self, stream: str, slot: int, read_to: int) -> None:
        self.router.unblock_senders(stream, slot)
        ranks = [rank for rank in self.plan.producers.get(stream, ()) if rank != self.plan.rank]
        if ranks:
            self.courier.carry_room(stream, ranks, slot, read_to)

    def snapshot(self) -> dict[str, Any]:
        """What requests hold on this rank, by kind; equal before and after means no leak."""
        parts = self.parts
        return {
            "requests": len(self.live),
            "rows": self.scheduler.rows(),
            "jobs": self.pool.running,
            "early": sum(len(parcels) for parcels in self._early.values()),
            "kv": {name: engine.snapshot() for name, engine in parts.kv.items()},
            "rings": {name: ring.snapshot() for name, ring in parts.rings.items()},
            "outboxes": {name: box.snapshot() for name, box in parts.outboxes.items()},
            "values": {name: values.held for name, values in parts.values.items()},
            "collectors": {name: made.held for name, made in parts.collectors.items()},
            "host": {name: engine.held for name, engine in parts.host.items()},
            "courier": self.courier.held,
            "joins": self.router.held,
            "waiting": len(self.mover.waiting),
            "aside": self.preempter.held,
            "served": self.groups.snapshot(),
        }

    def _receive(self) -> bool:
        for number in range(_MOST_PARCELS):
            parcel = self._next_parcel()
            if parcel is None:
                return number > 0
            self._handle(parcel)
        return True

    def _next_parcel(self) -> Parcel | None:
        return self._deferred.popleft() if self._deferred else self.mailbox.receive()

    def _handle(self, parcel: Parcel) -> None:
        match parcel.message:
            case Start():
                self._start(parcel.message, parcel)
            case Left(slot=slot, request=request, machine=machine):
                live = self.live.get(slot)
                if live is not None and live.request == request and not live.is_ending:
                    self.router.leave(slot, machine)
            case Release(slot=slot, request=request):
                self._end(slot, request)
            case Tell():
                self.teller.answer(parcel.message)
            case Succeeded(process=process, successor=successor):
                self.mailbox.succeed(process, successor)
                if self.peer_memory is not None:
                    self.peer_memory.succeeded(process)
            case LentRing() as message:
                if self.peer_memory is not None:
                    self.peer_memory.relent(message)
            case Stop():
                self.has_stopped = True
            case Items() as items if self.courier.take_in(items, parcel.frames):
                self.arrivals += 1
            case Items() | Marked() | Closed() | ReadTo() | Moved():
                for single in self.courier.split(parcel):
                    self._handle_for_slot(single)
            case NodeActions() | Settle():
                self.groups.handle(parcel)
            case other:
                raise AssertionError(f"a rank got a message of a conductor: {other}")

    def _handle_for_slot(self, parcel: Parcel) -> None:
        slot, request = self.courier.addressee(parcel.message)
        live = self.live.get(slot)
        if live is not None and live.request == request:
            if not live.is_ending:
                if isinstance(parcel.message, Items | ReadTo):
                    self.arrivals += 1
                else:
                    self.generation += 1
                self.courier.deliver(parcel, slot)
        elif request > self._last_request.get(slot, self._before_all):
            self._early.setdefault(slot, []).append(parcel)

    def _start(self, start: Start, parcel: Parcel) -> None:
        frames = iter(parcel.frames)
        inputs = {
            name: unpack_value(shape, None if shape.kind == "plain" else next(frames))
            for name, shape in start.inputs.items()
        }
        slot = start.slot
        assert slot not in self.live, f"slot {slot} was given away twice"
        self.generation += 1
        self._last_request[slot] = start.request
        self.live[slot] = LiveRequest(
            slot=slot,
            request=start.request,
            where=start.where,
            bounds=start.bounds,
            options=start.options,
            inputs=inputs,
            visits=Visits() if start.is_traced else None,
        )
        self.parts.options.admit(slot, start.options, start.wants)
        for table in self.parts.tables.values():
            table.admit(slot, start.options)
        for passes in self.parts.passes.values():
            passes.admit(slot, start.bounds)
        for engine in self.parts.kv.values():
            engine.admit(slot, start.options, start.seed)
        for machine in start.idle:
            self.router.leave(slot, machine)
            self.router.close_all(slot, machine)
        for _, step in start.machines:
            self.router.route(slot, step)
        for early in self._early.pop(slot, []):
            self._handle_for_slot(early)

    def _end(self, slot: int, request: int) -> None:
        live = self.live.get(slot)
        assert live is not None and live.request == request, f"slot {slot} holds no {request}"
        live.is_ending = live.is_released = True
        self.drop_rows(slot)
        if not live.jobs:
            self._give_back(live)

    def _give_back(self, live: LiveRequest) -> None:
        slot = live.slot
        self.rank.release(slot)
        self.preempter.forget(slot)
        self.parts.options.release(slot)
        for left in self.parts.passes_left.values():
            left.set(slot, 0)
        for box in self.parts.outboxes.values():
            box.release(slot)
        self.courier.forget(slot)
        self.router.forget(slot)
        del self.live[slot]
        self._early.pop(slot, None)
        self.generation += 1
        self.scheduler.feed()
        visits = () if live.visits is None else tuple(live.visits.all())
        self.mailbox.send(CONDUCTOR, Released(self.plan.process, slot, live.request, visits))

"""Sees a request when it comes, when it ends, and when it is cancelled; hands on what it makes.

`submit` admits a request into a slot, the same on all ranks, and tells every rank to start. From
then on the ranks go their way; what they emit comes here, tokens become text through the plan's
`via` ops in order, and the request's listener is told. When all machines are done, or one has
failed, every rank gives the slot back; only then the request is over and the slot is free: whatever
a rank has sent for it has come by then.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any

from mstarc_runtime.active import ActiveRequest, Listener
from mstarc_runtime.copies import Copies
from mstarc_runtime.engine.host import HostEngine, HostPool
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.frames import Frame, pack_value, unpack_value
from mstarc_runtime.handing_over import failure_of, hand_over, rows_of, tell_end
from mstarc_runtime.loader import LoadedPlan, PlacementFacts
from mstarc_runtime.messages import (
    Broken,
    Failed,
    HostOutput,
    Left,
    MachineDone,
    Progress,
    Ready,
    Release,
    Released,
    Start,
    StepOutput,
    Stop,
    Succeeded,
    Tell,
    Told,
)
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.request_times import RequestTimes
from mstarc_runtime.texts import Texts
from mstarc_runtime.trace import RequestTrace
from mstarc_runtime.transport.mailbox import Mailbox, Parcel
from mstarc_schedule.admission import decide
from mstarc_schedule.fairness import FairQueue, Turn


class Conductor:
    """All requests of one run."""

    def __init__(
        self,
        plan: LoadedPlan,
        placement: PlacementFacts,
        *,
        mailbox: Mailbox,
        pool: HostPool,
        via: Mapping[str, HostEngine],
        most_waiting: int = 1024,
    ) -> None:
        self.plan = plan
        self.placement = placement
        self.mailbox = mailbox
        self.ready: set[int] = set()
        self.broken: RuntimeFailure | None = None
        # Processes that were lost and have no successor yet, and why; what they have said last.
        self.away: dict[int, RuntimeFailure] = {}
        self.last_words: dict[int, RuntimeFailure] = {}
        self.goes_on_without = False
        self.progress: deque[str] = deque()
        # What each process has last told of its runs, and its trace as JSON.
        self.told: dict[int, tuple[Told, Frame]] = {}
        self.trace: RequestTrace | None = None
        self._pool = pool
        self._most_waiting = most_waiting
        self._outputs = {output.name: output for output in plan.outputs}
        self._texts = Texts(
            self._outputs, via, pool, failed=self._text_failed, read=self._text_read
        )
        self._free = list(range(placement.max_requests))
        self._copies = Copies(placement)
        self._waiting: FairQueue[ActiveRequest] = FairQueue()
        self._by_number: dict[int, ActiveRequest] = {}
        self._by_slot: dict[int, ActiveRequest] = {}
        self._next_number = 0

    @property
    def there(self) -> list[int]:
        """The processes that are not away."""
        numbers = (facts.process for facts in self.placement.processes)
        return [process for process in numbers if process not in self.away]

    @property
    def next_number(self) -> int:
        """The number that the next request will have."""
        return self._next_number

    @property
    def pending(self) -> int:
        """Requests that are not over."""
        return len(self._by_number)

    def submit(
        self,
        prepared: PreparedRequest,
        listener: Listener,
        *,
        on_tokens: Callable[[str, int], None] | None = None,
        read: dict[str, int] | None = None,
        times: RequestTimes | None = None,
        turn: Turn | None = None,
    ) -> int:
        """Takes a request; its number. Fails with MS9213, MS9310, or with why a rank is not there.

        `on_tokens` is told of outputs that become text how many tokens have come; `read` gets how
        many rows were read before the first one, where that is known. `times` gets the request's.
        `turn` says how it stands among others that wait.
        """
        if (failure := self.cannot_start()) is not None:
            raise failure.again()
        admission = prepared.admit(self.plan)
        turn = turn or Turn(most_waiting=self._most_waiting)
        waiting = self._waiting.waiting_of(turn.key)
        most = self._most_waiting if turn.most_waiting is None else turn.most_waiting
        if decide(free_slots=len(self._free), waiting=waiting, most_waiting=most) == "refuse":
            raise RuntimeFailure(
                "MS9310", f"{waiting} requests wait already", helps=["try again later"]
            )
        request = ActiveRequest(
            number=self._next_number,
            prepared=prepared,
            admission=admission,
            listener=listener,
            on_tokens=on_tokens,
            read={} if read is None else read,
            times=times or RequestTimes(),
        )
        request.times.submitted_ns = monotonic_ns()
        self._next_number += 1
        self._by_number[request.number] = request
        if self.trace is not None:
            self.trace.submitted(request.number)
        self._waiting.push(request, turn)
        self._start_waiting()
        return request.number

    def cancel(self, number: int) -> None:
        """Ends a request early. Harmless when it is over."""
        request = self._by_number.get(number)
        if request is None:
            return
        request.is_cancelled = True
        if request.slot < 0:
            self._waiting.remove(request)
            self._conclude(request)
            return
        self._end(request)

    def turn(self) -> bool:
        """Handles what has come; whether there was anything."""
        did = False
        while (parcel := self.mailbox.receive()) is not None:
            self._handle(parcel)
            did = True
        # Now that nothing is left of what their predecessors sent.
        if self.away and not self.ready.isdisjoint(self.away):
            self._succeed()
        return self._pool.drain() or did

    def cannot_start(self) -> RuntimeFailure | None:
        """Why no request can be started now; None if one can."""
        if self.broken is not None:
            return self.broken
        if self.away and not self._copies.can_take(self.away):
            return next(iter(self.away.values()))
        return None

    def lose(self, failure: RuntimeFailure) -> None:
        """A rank is gone for good: nothing that is pending can end well."""
        self.broken = failure
        self._waiting.clear()
        for request in list(self._by_number.values()):
            request.failure = request.failure or failure
            request.tokens.clear()
            self._conclude(request)

    def lose_some(self, successors: Mapping[int, int], failure: RuntimeFailure) -> None:
        """Processes are gone, and each will have a successor: the number of those before it.

        Requests that have something there end; they keep their slots until the successors are
        there, for only then is it sure that nothing comes from their predecessors any more.
        """
        for process, successor in successors.items():
            self.away[process] = failure
            self.ready.discard(process)
            self.mailbox.succeed(process, successor)
        for facts in self.placement.processes:
            # Also those that are being started: what they were told then is no longer so.
            if facts.process not in successors:
                for process, successor in successors.items():
                    self.mailbox.send(facts.process, Succeeded(process, successor))
        for request in list(self._by_number.values()):
            had = successors.keys() & set(request.where.values())
            if had:
                request.failure = request.failure or failure
                request.tokens.clear()
                request.processes -= had
                request.lost |= had
                self._end(request)
                tell_end(request)
        if self.cannot_start() is not None:
            while self._waiting:
                request = self._waiting.pop()
                request.failure = failure
                self._conclude(request)

    def ask(self, *, with_trace: bool, watch_s: float = 0.0) -> None:
        """Has every rank tell what it has run; `told` gets what they say, and for so long again."""
        self.told.clear()
        for process in self.there:
            self.mailbox.send(process, Tell(with_trace, watch_s))

    def stop(self) -> None:
        """Tells all ranks to end."""
        for process in self.there:
            self.mailbox.send(process, Stop())

    def snapshot(self) -> dict[str, Any]:
        """What requests hold here."""
        return {
            "requests": len(self._by_number),
            "waiting": len(self._waiting),
            "taken_slots": self.placement.max_requests - len(self._free),
            "host": self._texts.held,
            "jobs": self._pool.running,
            "loads": self._copies.loads,
        }

    def _start(self, request: ActiveRequest) -> None:
        slot = request.slot = heapq.heappop(self._free)
        if self.trace is not None:
            self.trace.admitted(request.number, slot)
        self._by_slot[slot] = request
        request.times.admitted_ns = monotonic_ns()
        admission, prepared = request.admission, request.prepared
        runs = [name for name in self.placement.machines if admission.runs.get(name, True)]
        request.machines = set(runs)
        request.where = self._copies.take(self.away)
        request.processes = set(request.where.values())
        packed = {name: pack_value(value) for name, value in prepared.inputs.items()}
        for rank, process in request.where.items():
            starts = [(name, self.placement.machines[name]) for name in runs]
            message = Start(
                slot=slot,
                request=request.number,
                where=dict(request.where),
                machines=tuple((name, start.step) for name, start in starts if start.rank == rank),
                bounds=dict(admission.bounds),
                options=dict(admission.options),
                inputs={name: shape for name, (shape, _) in packed.items()},
                seed=prepared.seed,
                idle=tuple(name for name in self.placement.machines if name not in runs),
                is_traced=request.times.is_traced,
                wants=tuple(sorted(prepared.wants)),
            )
            frames = [frame for _, frame in packed.values() if frame is not None]
            self.mailbox.send(process, message, frames)

    def _end(self, request: ActiveRequest) -> None:
        if request.is_ending:
            return
        request.is_ending = True
        for process in request.where.values():
            if process not in request.lost:
                self.mailbox.send(process, Release(request.slot, request.number))

    def _handle(self, parcel: Parcel) -> None:
        if self.broken is not None:
            return  # every request is over; what other ranks still say is about none
        match parcel.message:
            case StepOutput() as message:
                self._step_output(message, parcel.frames)
            case HostOutput(slot=slot, output=output, shape=shape):
                frame = parcel.frames[0] if parcel.frames else None
                self._emit(self._by_slot[slot], output, unpack_value(shape, frame))
            case MachineDone(slot=slot, machine=machine):
                request = self._by_slot[slot]
                request.machines.discard(machine)
                if not request.machines:
                    if request.is_known_whole:
                        tell_end(request)
                    self._end(request)
                elif not request.is_ending:
                    for process in request.where.values():
                        self.mailbox.send(process, Left(slot, request.number, machine))
            case Failed() as message:
                request = self._by_slot[message.slot]
                if request.failure is None and not request.is_cancelled:
                    request.failure = failure_of(message)
                self._end(request)
            case Released(process=process, slot=slot, visits=visits):
                request = self._by_slot[slot]
                request.times.visits += [(process, visit) for visit in visits]
                request.processes.discard(process)
                if not request.processes:
                    self._finish_texts(request)
            case Ready(process=process):
                self.ready.add(process)
            case Told(process=process) as message:
                self.told[process] = (message, parcel.frames[0])
            case Progress(text=text):
                self.progress.append(text)
            case Broken(process=process) as message:
                if self.goes_on_without:
                    self.last_words[process] = failure_of(message)
                else:
                    self.lose(failure_of(message))
            case other:
                raise AssertionError(f"a rank sent the conductor {other}")

    def _step_output(self, message: StepOutput, frames: Any) -> None:
        for part, frame in zip(message.parts, frames, strict=True):
            if part.read is not None and self._outputs[part.output].via is not None:
                for slot, rows in zip(part.slots, part.read, strict=True):
                    request = self._by_slot[slot]
                    if part.output not in request.tokens:
                        request.read[part.output] = rows
            for slot, value in rows_of(part, frame):
                self._emit(self._by_slot[slot], part.output, value)

    def _emit(self, request: ActiveRequest, name: str, value: Any) -> None:
        if request.failure is not None or request.is_cancelled:
            return
        if name not in request.prepared.wants:
            return
        if self.trace is not None:
            self.trace.made(request.number)
        request.times.made()
        output = self._outputs[name]
        if output.via is not None:
            self._texts.take(request, output, value)
            return
        hand_over(request.listener, output, value)

    def _text_failed(self, request: ActiveRequest, failure: RuntimeFailure) -> None:
        request.failure = failure
        self._end(request)

    def _text_read(self, request: ActiveRequest) -> None:
        if not request.is_reading and not request.processes:
            self._finish_texts(request)

    def _finish_texts(self, request: ActiveRequest) -> None:
        """All ranks are through: what is left of texts is handed over, then the request is over."""
        if request.number not in self._by_number:
            return
        self._texts.finish(request)
        if not request.is_reading and not request.lost:
            self._conclude(request)

    def _succeed(self) -> None:
        """Processes are there that others were lost for."""
        back = self.ready & self.away.keys()
        for process in back:
            del self.away[process]
        for request in list(self._by_number.values()):
            if request.lost & back:
                request.lost -= back
                if not request.processes:
                    self._finish_texts(request)
        self._start_waiting()

    def _conclude(self, request: ActiveRequest) -> None:
        del self._by_number[request.number]
        request.times.ended_ns = monotonic_ns()
        if self.trace is not None:
            self.trace.ended(request.number)
        self._texts.release(request)
        if request.slot >= 0:
            del self._by_slot[request.slot]
            heapq.heappush(self._free, request.slot)
            self._copies.give_back(request.where)
        tell_end(request)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self._free and self.cannot_start() is None:
            self._start(self._waiting.pop())

"""The events of a simulation: requests come and end, rows go from step to step, items to readers.

What crosses processes takes the link's time, and room in a stream is known to its sender that much
later. What a process does with the rows at its stations is in `worker`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf

from mstarc.analysis.op_costs import Profile
from mstarc.deployment import Devices
from mstarc.ir.chunks import Chunk
from mstarc.plan.lanes import stream_of
from mstarc.plan.plan import (
    Admission,
    BranchPlan,
    DonePlan,
    HopPlan,
    JoinPlan,
    LoopTarget,
    MarkPlan,
    PlacedPlan,
    RunStep,
    SpreadPlan,
    Target,
)
from mstarc.simulate.parts import Channel, Live, Process, Station
from mstarc.simulate.sample import Sample
from mstarc.simulate.times import StepTimes
from mstarc.simulate.worker import Workers
from mstarc_schedule.admission import decide
from mstarc_schedule.batching import BatchPolicy, default_policy
from mstarc_schedule.copies import choose_copy, replicated_sets

MOST_WAITING = 1 << 30


class Simulation:
    """One run.

    `finished` has the requests that are over, `queue` (time, requests in the system, waiting).
    """

    def __init__(
        self,
        placed: PlacedPlan,
        admission: Admission,
        devices: Devices,
        *,
        slots: int,
        measured: Mapping[str, int],
        profile: Profile | None,
        sized: Mapping[str, int],
    ) -> None:
        kind = devices.kind
        self.placed = placed
        self.policy = replace(
            default_policy(all_cpu=kind.is_cpu), token_budget=placed.placement.prefill_tokens
        )
        self.devices = devices
        self.now = 0.0
        self.slots = slots
        self.free_slots = slots
        self.waiting: deque[Live] = deque()
        self.live = 0
        self.most_waiting = 0
        self.finished: list[Live] = []
        self.queue: list[tuple[float, int, int]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._requests = count()
        self.worker = Workers(self, StepTimes(kind, measured, profile, sized))
        self._capacity = {ring.name: ring.capacity for rank in placed.ranks for ring in rank.rings}
        self._streams = {plan.stream.name: plan for plan in placed.streams}
        self._conditions = {m.name: m.condition for m in placed.program.machines}
        self.types = {variable.name: variable.type for variable in placed.variables}
        self.processes = _processes(placed, self.policy, slots)
        of_rank: dict[int, list[Process]] = {}
        for process in self.processes:
            of_rank.setdefault(process.rank, []).append(process)
        self._of_rank = of_rank
        groups = [node.group for rank in placed.ranks for node in rank.nodes if node.group]
        counts = {rank: len(found) for rank, found in of_rank.items()}
        self._sets = replicated_sets(counts, groups)
        self._loads = {ranks: [0] * counts[ranks[0]] for ranks in self._sets}
        self.link_s = kind.hop_s if len(self.processes) > 1 else 0.0

    # Time

    def at(self, time: float, event: Callable[[], None]) -> None:
        heappush(self._events, (time, next(self._numbers), event))

    def run(self, samples: Iterable[Sample], until_s: float) -> None:
        """Lets the requests come, and time go on until `until_s` or until all are over."""
        coming = iter(samples)

        def come() -> None:
            sample = next(coming, None)
            if sample is not None:
                self.at(sample.arrival_s, partial(arrive, sample))

        def arrive(sample: Sample) -> None:
            self.submit(sample)
            come()

        come()
        step = (until_s if until_s < inf else 1000.0) / 100
        looked = 0.0
        while self._events:
            time, _, event = heappop(self._events)
            if time > until_s:
                self.now = until_s
                return
            while looked <= time:
                self.queue.append((looked, self.live + len(self.waiting), len(self.waiting)))
                looked += step
            self.now = time
            event()

    # Requests

    def submit(self, sample: Sample) -> None:
        """A request comes."""
        request = Live(number=next(self._requests), sample=sample)
        decision = decide(
            free_slots=self.free_slots, waiting=len(self.waiting), most_waiting=MOST_WAITING
        )
        if decision == "admit":
            self._start(request)
        else:
            self.waiting.append(request)
            self.most_waiting = max(self.most_waiting, len(self.waiting))

    def _start(self, request: Live) -> None:
        self.free_slots -= 1
        self.live += 1
        request.started_at = self.now
        where: dict[int, Process] = {}
        for ranks in self._sets:
            copy = choose_copy(self._loads[ranks])
            self._loads[ranks][copy] += 1
            where.update({rank: self._of_rank[rank][copy] for rank in ranks})
        request.where = where
        facts = request.sample.facts
        starts = [m for m in self.placed.machines if facts.holds(self._conditions[m.machine])]
        request.machines = {start.machine for start in starts}
        for name, plan in self._streams.items():
            capacity = self._capacity.get(plan.lanes[0], plan.stream.capacity or 1)
            request.channels[name] = Channel(
                policy=plan.stream.policy, tail=plan.stream.tail, capacity=capacity
            )
        for start in starts:
            process = where[start.rank]
            self.soon(self.link_s, partial(self._arrive_at, request, process, start.step))

    def soon(self, delay_s: float, event: Callable[[], None]) -> None:
        self.at(self.now + delay_s, event)

    def _arrive_at(self, request: Live, process: Process, target: Target) -> None:
        self.route(request, process, target)
        self.worker.kick(process)

    def _machine_done(self, request: Live, machine: str) -> None:
        request.machines.discard(machine)
        if request.machines:
            return
        request.done_at = self.now
        self.finished.append(request)
        self.soon(2 * self.link_s, partial(self._release, request))

    def _release(self, request: Live) -> None:
        """Every rank has given the slot back."""
        self.free_slots += 1
        self.live -= 1
        for ranks in self._sets:
            copy = self._of_rank[ranks[0]].index(request.where[ranks[0]])
            self._loads[ranks][copy] -= 1
        if self.waiting:
            self._start(self.waiting.popleft())

    # Where rows go: the runtime's router

    def route(self, request: Live, process: Process, target: Target) -> None:
        """Brings a row from a step that is behind it to where it waits or runs next."""
        while True:
            if isinstance(target, LoopTarget):
                target = self.pass_of(request, target)
            step = process.steps[target]
            match step:
                case RunStep():
                    self.arrive(request, process.stations[step.id])
                    return
                case BranchPlan(test=test, yes=yes, no=no):
                    target = yes if request.sample.facts.holds(test) else no
                case MarkPlan(streams=lanes, mark=mark, then=then):
                    for stream in dict.fromkeys(map(stream_of, lanes)):
                        self.deliver(request, stream, process, mark=mark)
                    target = then
                case SpreadPlan(branches=branches):
                    for branch in branches[1:]:
                        self.route(request, process, branch)
                    target = branches[0]
                case JoinPlan(id=number, arrivals=arrivals, then=then):
                    here = request.arrived.get(number, 0) + 1
                    request.arrived[number] = 0 if here == arrivals else here
                    if here < arrivals:
                        return
                    target = then
                case HopPlan(rank=rank, step=there, bytes=size):
                    other = request.where[rank]
                    taken = self.link_s + (size or 0) / self.devices.kind.link_bytes_per_s
                    self.soon(taken, partial(self._arrive_at, request, other, there))
                    return
                case DonePlan(machine=machine, closes=lanes):
                    for stream in dict.fromkeys(map(stream_of, lanes)):
                        self.deliver(request, stream, process, closes=True)
                    self.soon(self.link_s, partial(self._machine_done, request, machine))
                    return

    def pass_of(self, request: Live, target: LoopTarget) -> int:
        loop, passes = target.loop, request.sample.facts.passes
        if target.kind == "enter":
            request.left[loop] = request.sample.bounds[loop]
            passes[loop] = -1
        if request.left[loop] <= 0:
            return target.otherwise
        request.left[loop] -= 1
        passes[loop] += 1
        return target.first

    def arrive(self, request: Live, station: Station) -> None:
        """The row is at a station: ready, or waiting for the streams that the step reads."""
        step = station.step
        for stream in station.pulls:
            channel = request.channels[stream]
            if channel.pulled() is None:
                channel.wait(station, pulls=True)
                return
        for stream in station.reads:
            channel = request.channels[stream]
            found = channel.next(step)
            if found is None:
                channel.wait(station)
                return
            event, cursor = found
            if not isinstance(event, Chunk):
                assert step.drained is not None, step.name
                channel.move(cursor)
                self.route(request, station.process, step.drained)
                return
            if step.last is not None:
                behind = channel.after(step, cursor)
                if behind is None:
                    channel.wait(station)
                    return
                if not isinstance(behind, Chunk):
                    self.arrive(request, station.process.stations[step.last])
                    return
        station.ready.append(request)

    # Streams

    def deliver(
        self,
        request: Live,
        stream: str,
        sender: Process,
        *,
        items: int = 0,
        mark: str | None = None,
        closes: bool = False,
    ) -> None:
        """Items, a mark or the close of a stream, on their way to the reader's rank."""
        channel = request.channels[stream]
        channel.sent += items
        if request.where[self._streams[stream].consumer_rank] is sender:
            self._come(request, channel, items, mark, closes)
            return
        channel.arrives_at = max(channel.arrives_at, self.now + self.link_s)
        self.at(channel.arrives_at, partial(self._come, request, channel, items, mark, closes))

    def _come(
        self, request: Live, channel: Channel, items: int, mark: str | None, closes: bool
    ) -> None:
        history = channel.history
        if items == 1:
            history.items.append(False)
        else:
            history.items.extend([False] * items)
        if mark is not None:
            history.marks.append((len(history.items), mark))
        history.closed = history.closed or closes
        station = channel.waiting
        if station is None:
            return
        if mark is not None or closes or len(history.items) >= channel.fires_at:
            channel.waiting = None
            self.arrive(request, station)
            self.worker.kick(station.process)

    def give_room(self, request: Live, stream: str, reader: Process, free: int) -> None:
        channel = request.channels[stream]
        if free <= channel.freed:
            return
        ranks = self._streams[stream].producer_ranks
        senders = [request.where[rank] for rank in ranks]

        def known() -> None:
            channel.freed = max(channel.freed, free)
            for sender in senders:
                for station in sender.stations.values():
                    if request in station.blocked:
                        station.blocked.remove(request)
                        station.ready.append(request)
                self.worker.kick(sender)

        if all(sender is reader for sender in senders):
            known()
        else:
            self.soon(self.link_s, known)


def _processes(placed: PlacedPlan, policy: BatchPolicy, slots: int) -> list[Process]:
    """A process for each copy of each rank, in the order of copies and ranks."""
    devices: dict[int, list[int]] = {rank.rank: [rank.rank] for rank in placed.ranks}
    for copy in sorted(placed.placement.copies, key=lambda copy: (copy.rank, copy.copy)):
        devices[copy.rank].append(copy.device)
    found: list[Process] = []
    for rank in placed.ranks:
        for number, device in enumerate(devices[rank.rank]):
            process = Process(
                number=len(found),
                rank=rank.rank,
                copy=number,
                device=device,
                steps={step.id: step for step in rank.steps},
                nodes={node.node.name: node for node in rank.nodes},
            )
            process.build_stations(policy, slots)
            for step in rank.steps:
                if isinstance(step, RunStep):
                    groups = {r for name in step.nodes for r in process.nodes[name].group}
                    others = sorted(groups - {rank.rank})
                    process.followers[step.id] = tuple(devices[r][number] for r in others)
            found.append(process)
    return found

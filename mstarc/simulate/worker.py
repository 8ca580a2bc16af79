"""What a process does in a turn: the runtime's scheduler and stepper, with times for values.

Of the stations that can run, the one whose turn is longest ago takes the rows that run together;
when the step's time is over its rows are routed on. Host steps run beside the device,
`HOST_THREADS` at once in a process. A step of a group keeps all devices of the group busy.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from mstarc.ir.chunks import Chunk
from mstarc.ir.exprs import Expr, Local
from mstarc.ir.types import DimConst, TensorType
from mstarc.plan.actions import Action, ClearContext, EmitValue, Repeat, SendItem
from mstarc.plan.lanes import stream_of
from mstarc.plan.plan import Grow, LoopTarget, RunStep
from mstarc.records import dataclass
from mstarc.simulate.parts import Live, Process, Rows, Station
from mstarc.simulate.times import StepTimes
from mstarc_schedule.batching import (
    behind_whole,
    bucket_of,
    choose,
    next_group,
    piece_of,
    take_alike,
    take_packed,
)

if TYPE_CHECKING:
    from mstarc.simulate.run import Simulation

HOST_THREADS = 3


@dataclass(frozen=True, slots=True)
class Effect:
    """What a step leaves behind for a row: an output, or `items` of a stream, so often.

    `is_free`: as many as the request has rows, `items` at most.
    """

    stream: str | None
    items: int
    is_free: bool
    masked: bool
    when: Expr | None
    times: int


class Workers:
    """All processes of a simulation. `busy_s` is by device."""

    def __init__(self, simulation: "Simulation", times: StepTimes) -> None:
        self.simulation = simulation
        self.times = times
        self.busy_s: dict[int, float] = {}
        self._busy_until: dict[int, float] = {}
        self._effects: dict[int, tuple[Effect, ...]] = {}

    def kick(self, process: Process) -> None:
        """Starts the step whose turn it is, if the process is free and any row is ready."""
        if process.is_busy:
            return
        # What is told while it chooses is seen by its next turn.
        process.is_busy = True
        while True:
            able = [s for s in process.stations.values() if s.ready or s.groups]
            if not able:
                process.is_busy = False
                return
            station = able[choose([s.turn for s in able])]
            process.turn += 1
            station.turn = process.turn
            if station.step.kind == "host":
                self._dispatch(station)
                continue
            rows = self._take_group(station) if station.is_resident else self._take_ready(station)
            if rows:
                self._begin(station, rows)
                return

    def _has_room(self, request: Live, station: Station) -> bool:
        for stream, burst in station.sends:  # noqa: SIM110 - for every row of every step: no generator
            if request.channels[stream].room < burst:
                return False
        return True

    def _take_group(self, station: Station) -> Rows:
        """The rows of the group whose turn it is, those that are ready among them."""
        index = next_group([len(g) for g in station.groups], len(station.ready), station.most)
        group: Rows = station.groups.pop(index) if index < len(station.groups) else []
        while station.ready and len(group) < station.most:
            group.append(station.ready.pop(0))
        if station.sends:
            with_room: Rows = []
            for request in group:
                rows = with_room if self._has_room(request, station) else station.blocked
                rows.append(request)
            group = with_room
        if group:
            station.groups.append(group)
        return list(group)

    def _take_ready(self, station: Station) -> Rows:
        """The ready rows that run together; those without room are set aside."""
        step = station.step
        able = [r for r in station.ready if self._has_room(r, station)]
        station.blocked += [r for r in station.ready if r not in able]
        most = station.most
        if able and most > 1 and step.rows == "packed":
            tokens = [r.sample.rows - r.read for r in able]
            knows = station.has_run or station.in_pieces
            most = take_packed(self.simulation.policy, tokens, most) if knows else 1
        rows = able[:most]
        if able and station.most > 1 and step.rows == "shaped":
            shapes = [self._shape(r, station) for r in able]
            chosen = take_alike(shapes, station.most if station.has_run else 1)
            rows = [able[index] for index in chosen]
        station.ready = [r for r in able if r not in rows]
        for request in rows:
            self._take_chunks(request, station)
            if station.in_pieces:
                left = request.sample.rows - request.read
                request.chunk_rows = piece_of(self.simulation.policy, left)
        return rows

    def _shape(self, request: Live, station: Station) -> int:
        """What decides which rows of a stateless step run together."""
        for stream in station.reads:
            found = request.channels[stream].next(station.step)
            if found is not None and isinstance(found[0], Chunk):
                return found[0].context + found[0].fresh + found[0].padding
        return request.sample.rows if station.step.packed or station.step.loads else 1

    def _take_chunks(self, request: Live, station: Station) -> None:
        request.chunk_rows = 0
        for stream in station.reads:
            channel = request.channels[stream]
            found = channel.next(station.step)
            assert found is not None and isinstance(found[0], Chunk), station.step.name
            chunk = found[0]
            request.chunk_rows = chunk.context + chunk.fresh + chunk.padding
            self.simulation.give_room(request, stream, station.process, channel.move(found[1]))
        for stream in station.pulls:
            channel = request.channels[stream]
            pulled = channel.pulled()
            assert pulled is not None, station.step.name
            self.simulation.give_room(request, stream, station.process, channel.move(pulled[1]))

    def _begin(self, station: Station, rows: Rows) -> None:
        process, step = station.process, station.step
        station.has_run = True
        batch = bucket_of(
            self.simulation.policy,
            step.rows or "",
            step.buckets,
            len(rows),
            captured=step.region is not None and not self.times.kind.is_cpu,
        )
        is_cut = station.reads or station.in_pieces
        size = sum(r.chunk_rows if is_cut else r.sample.rows for r in rows) / len(rows)
        context = self._grow(step, rows)
        seconds = self.times.of(step, process.nodes, batch, size, context)
        held = (process.device, *process.followers.get(step.id, ()))
        start = max([self.simulation.now, *(self._busy_until.get(device, 0.0) for device in held)])
        for device in held:
            self._busy_until[device] = start + seconds
            self.busy_s[device] = self.busy_s.get(device, 0.0) + seconds
        sizes = process.batches.setdefault(step.name, {})
        sizes[len(rows)] = sizes.get(len(rows), 0) + 1
        self.simulation.at(start + seconds, partial(self._land, station, rows))

    def _grow(self, step: RunStep, rows: Rows) -> float:
        """Counts the rows that contexts get; the mean of what the calls attend to."""
        total = 0
        for prepared in step.prepares:
            if isinstance(prepared, Grow) and prepared.kept:
                node, more = prepared.node, prepared.rows
                fixed = prepared.of is None and prepared.count is None
                for request in rows:
                    context = request.context
                    if not fixed:
                        more = request.chunk_rows or request.sample.rows
                    context[node] = context.get(node, 0) + more
            elif isinstance(prepared, ClearContext):
                for request in rows:
                    request.context[prepared.node] = 0
        for request in rows:
            held = request.context
            # Nearly every step is of one node.
            total += max([held[name] for name in step.nodes if name in held], default=0)
        return total / len(rows)

    def _land(self, station: Station, rows: Rows) -> None:
        process, step = station.process, station.step
        if station.in_pieces and self._has_more(station, rows):
            process.is_busy = False
            self.kick(process)
            return
        simulation, then = self.simulation, step.then
        effects = self._effects_of_step(step)
        again = then if isinstance(then, LoopTarget) and station.is_resident else None
        for request in rows:
            goes_on = self._goes_on(request, step)
            if effects:
                self._leave_behind(request, station, goes_on, effects)
            if again is None:
                simulation.route(request, process, then)
            elif goes_on:
                simulation.pass_of(request, again)
            else:
                self._leave_group(request, station, again)
        process.is_busy = False
        self.kick(process)

    def _has_more(self, station: Station, rows: Rows) -> bool:
        """Counts what was read of prompts; whether one goes on, and waits for its next turn."""
        for request in rows:
            request.read += request.chunk_rows
        if rows[0].read < rows[0].sample.rows:
            waiting = [*rows, *station.ready]
            lefts = [request.sample.rows - request.read for request in waiting]
            order = behind_whole(self.simulation.policy, lefts)
            station.ready = [waiting[index] for index in order]
            return True
        for request in rows:
            request.read = 0
        return False

    def _leave_group(self, request: Live, station: Station, then: LoopTarget) -> None:
        for group in station.groups:
            if request in group:
                group.remove(request)
        station.groups = [group for group in station.groups if group]
        self.simulation.route(request, station.process, then.otherwise)

    def _goes_on(self, request: Live, step: RunStep) -> bool:
        then = step.then
        if not isinstance(then, LoopTarget):
            return True
        if then.kind == "enter":
            return request.sample.bounds[then.loop] > 0
        return request.left[then.loop] > 0

    def _effects_of_step(self, step: RunStep) -> tuple[Effect, ...]:
        effects = self._effects.get(step.id)
        if effects is None:
            effects = self._effects[step.id] = tuple(self._effects_of(step.actions, 1))
        return effects

    def _leave_behind(
        self, request: Live, station: Station, goes_on: bool, effects: tuple[Effect, ...]
    ) -> None:
        """What the step sends and emits."""
        simulation = self.simulation
        for effect in effects:
            if effect.masked and not goes_on:
                continue
            if effect.when is not None and not request.sample.facts.holds(effect.when):
                continue
            if effect.stream is None:
                if request.first_output_at < 0.0:
                    request.first_output_at = simulation.now + simulation.link_s
                continue
            items = min(effect.items, request.sample.rows) if effect.is_free else effect.items
            simulation.deliver(request, effect.stream, station.process, items=effect.times * items)

    def _effects_of(self, actions: Sequence[Action], times: int) -> list[Effect]:
        """Those of a body that is repeated so often; of an item of several lanes, one."""
        found: list[Effect] = []
        sent: set[str] = set()
        for action in actions:
            if isinstance(action, EmitValue):
                found.append(Effect(None, 0, False, action.masked, action.when, times))
            elif isinstance(action, SendItem):
                stream = stream_of(action.stream)
                if stream in sent and "." in action.stream:
                    continue
                sent.add(stream)
                free = self._is_free(action)
                found.append(Effect(stream, action.items, free, action.masked, action.when, times))
            elif isinstance(action, Repeat):
                found += self._effects_of(action.body, times * action.passes)
        return found

    def _is_free(self, action: SendItem) -> bool:
        """Whether only the run knows how many items are sent: `action.items` is the most."""
        value = action.value
        type_ = self.simulation.types.get(value.name) if isinstance(value, Local) else None
        return isinstance(type_, TensorType) and any(
            not isinstance(dim, DimConst) for dim in type_.dims[:1]
        )

    # Host code

    def _dispatch(self, station: Station) -> None:
        request = station.ready.pop(0)
        if not self._has_room(request, station):
            station.blocked.append(request)
            return
        self._take_chunks(request, station)
        process = station.process
        if process.jobs >= HOST_THREADS:
            process.jobs_waiting.append((station, request))
        else:
            self._begin_job(station, request)

    def _begin_job(self, station: Station, request: Live) -> None:
        process = station.process
        process.jobs += 1
        seconds = self.times.of(station.step, process.nodes, 1, request.sample.rows, 0)
        self.simulation.soon(seconds, partial(self._end_job, station, request))

    def _end_job(self, station: Station, request: Live) -> None:
        process = station.process
        process.jobs -= 1
        step = station.step
        goes_on = self._goes_on(request, step)
        self._leave_behind(request, station, goes_on, self._effects_of_step(step))
        self.simulation.route(request, process, station.step.then)
        if process.jobs_waiting:
            self._begin_job(*process.jobs_waiting.popleft())
        self.kick(process)

"""Where a row goes next: static targets, loops, streams that are waited for.

A step's `then`, a loop's counter and flag → the station at which the row is ready or waits. Static
choices and ends of machines are passed through on the way.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.plan_api import (
    Again,
    BranchStep,
    DeviceStep,
    DoneStep,
    Enter,
    HopStep,
    HostStep,
    JoinStep,
    MarkStep,
    SpreadStep,
    Step,
    Target,
)
from mstarc_runtime.plan_steps import machine_of
from mstarc_runtime.scheduler import Station

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class Router:
    """Moves rows of one rank."""

    def __init__(self, worker: "Worker", steps: Sequence[Step]) -> None:
        self._worker = worker
        self._steps: dict[int, Step] = {step.id: step for step in steps}
        self._readers: dict[str, list[Station]] = {}
        self._senders: dict[str, list[Station]] = {}
        self._read_by: dict[str, set[str]] = {}
        for station in worker.scheduler.stations:
            step = station.step
            pulls = step.pulls if isinstance(step, DeviceStep) else ()
            for stream in (*step.reads, *pulls):
                self._readers.setdefault(stream, []).append(station)
                self._read_by.setdefault(machine_of(step.name), set()).add(stream)
            for stream, _ in step.sends:
                self._senders.setdefault(stream, []).append(station)

        self._machines = _machines(steps)
        # (join, slot) → branches that have come.
        self._arrived: Counter[tuple[int, int]] = Counter()

    @property
    def held(self) -> int:
        """Joins at which branches wait for others."""
        return len(self._arrived)

    def forget(self, slot: int) -> None:
        """Drops what waits here for a request that is over."""
        for key in [key for key in self._arrived if key[1] == slot]:
            del self._arrived[key]

    def streams_of(self, hop: HopStep) -> list[str]:
        """The streams to which the machine that moves there sends from this rank."""
        machine = self._machines[hop.id]
        return [
            stream
            for stream, stations in self._senders.items()
            if any(self._machines[station.step.id] == machine for station in stations)
        ]

    def loops_of(self, hop: HopStep) -> list[str]:
        """The loops of the machine that moves there, as far as this rank has them."""
        return [loop for loop in self._worker.parts.passes_left if self.is_of_machine(loop, hop)]

    def is_of_machine(self, loop: str, hop: HopStep) -> bool:
        return machine_of(loop) == self._machines[hop.id]

    def is_join(self, step: int) -> bool:
        return isinstance(self._steps[step], JoinStep)

    def route(self, slot: int, target: Target, more: bool = True) -> None:
        """Brings a row from a step that is behind it to where it waits or runs next.

        `more` is the flag that the step set for a tested loop.
        """
        worker = self._worker
        while True:
            if not isinstance(target, int):
                target = self._pass_of(slot, target, more)
            step = self._steps[target]
            match step:
                case DeviceStep() | HostStep():
                    self.arrive(slot, worker.scheduler.station(step.id))
                    return
                case BranchStep():
                    target = step.yes if step.test(worker.rank, slot) else step.no
                case MarkStep():
                    for stream in step.streams:
                        self._mark(slot, stream, step.mark)
                    target = step.then
                case DoneStep():
                    for stream in step.closes:
                        self.close(slot, stream)
                    worker.machine_done(slot, step.machine)
                    return
                case HopStep():
                    worker.mover.leave(slot, step)
                    return
                case SpreadStep():
                    for branch in step.branches:
                        if not worker.live[slot].is_ending:
                            self.route(slot, branch)
                    return
                case JoinStep():
                    if not self._is_whole(slot, step):
                        return
                    target = step.then
                case _:
                    assert_never(step)

    def _is_whole(self, slot: int, step: JoinStep) -> bool:
        """Counts a branch that has come to a join; whether it was the last one."""
        key = (step.id, slot)
        self._arrived[key] += 1
        if self._arrived[key] < step.arrivals:
            return False
        del self._arrived[key]
        return True

    def arrive(self, slot: int, station: Station) -> None:
        """The row is at a station: ready, or waiting for the streams that the step reads."""
        worker = self._worker
        step = station.step
        visits = worker.live[slot].visits
        if visits is not None:
            visits.enter(step.name)
        pulls = step.pulls if isinstance(step, DeviceStep) else ()
        if not step.reads and not pulls:
            station.ready.append(slot)
            return
        rings = worker.parts.rings
        ahead = step.last is not None
        standings = {
            stream: rings[stream].wait(slot, step.cut, ahead=ahead) for stream in step.reads
        }
        items = {stream: rings[stream].wait_item(slot) for stream in pulls}
        if "waiting" in (*standings.values(), *items.values()):
            station.waiting.add(slot)
            return
        if isinstance(step, DeviceStep) and step.sure and "drained" in items.values():
            worker.fail(slot, _closed_unread(pulls[0]), step)
            return
        if all(standing == "ready" for standing in standings.values()):
            station.ready.append(slot)
            return
        if step.last is not None and set(standings.values()) == {"last"}:
            self.leave_step(slot, step)
            self.route(slot, step.last)
            return
        empty = [stream for stream, standing in standings.items() if standing == "empty"]
        if empty:
            worker.fail(slot, _closed_empty(empty[0]), step)
            return
        goes_on = ("ready", "last")
        unequal = [stream for stream, standing in standings.items() if standing in goes_on]
        if unequal:
            worker.fail(slot, _closed_early(unequal[0], standings), step)
            return
        assert step.drained is not None, f"step {step.name} reads and has no way out"
        if step.cut is not None and step.cut.until is not None:
            for stream in step.reads:
                rings[stream].leave(slot, step.cut.until)
        self.leave_step(slot, step)
        self.route(slot, step.drained)

    def leave_step(self, slot: int, step: DeviceStep | HostStep) -> None:
        """A row goes on from a step: noted where its request is traced."""
        visits = self._worker.live[slot].visits
        if visits is not None:
            visits.leave(step.name)

    def leave(self, slot: int, machine: str) -> None:
        """A machine reads no more: its streams take all that still comes, and keep nothing."""
        for stream in self._read_by.get(machine, ()):
            self._worker.parts.rings[stream].leave_open(slot)

    def close_all(self, slot: int, machine: str) -> None:
        """A machine that does not run closes what it would have sent to."""
        for step in self._steps.values():
            if isinstance(step, DoneStep) and step.machine == machine:
                for stream in step.closes:
                    self.close(slot, stream)

    def _mark(self, slot: int, stream: str, mark: str) -> None:
        parts = self._worker.parts
        if stream in parts.rings:
            parts.rings[stream].mark(slot, mark)
        else:
            self._worker.courier.flush()
            parts.outboxes[stream].mark(slot, mark)

    def close(self, slot: int, stream: str) -> None:
        """The producer of a stream is done."""
        parts = self._worker.parts
        if stream in parts.rings:
            parts.rings[stream].close(slot)
        else:
            self._worker.courier.flush()
            parts.outboxes[stream].close(slot)

    def wake_readers(self, stream: str, slot: int, has_chunk: bool) -> None:
        for station in self._readers.get(stream, ()):
            station.is_dry = False
            if slot in station.waiting:
                station.waiting.discard(slot)
                if has_chunk and station.reads_one:
                    station.ready.append(slot)
                else:
                    self.arrive(slot, station)

    def unblock_senders(self, stream: str, slot: int) -> None:
        for station in self._senders.get(stream, ()):
            station.unblock(slot)

    def _pass_of(self, slot: int, target: Enter | Again, more: bool) -> int:
        """Whether the loop runs once more, and what that makes the next step."""
        worker = self._worker
        loop = worker.parts.loops[target.loop]
        left = worker.parts.passes_left[target.loop]
        if isinstance(target, Enter):
            left.set(slot, worker.live[slot].bounds[loop.bound])
        count = left.get(slot)
        if count <= 0 or (loop.tested and not more):
            return target.otherwise
        left.set(slot, count - 1)
        return target.first


def _closed_empty(stream: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9306",
        f"stream `{stream}` closed without an item",
        notes=["its spec says `empty error`"],
    )


def _closed_unread(stream: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9306",
        f"stream `{stream}` closed before its reader had an item",
        notes=["its reader says `pull` without `or none`"],
    )


def _closed_early(stream: str, standings: Mapping[str, str]) -> RuntimeFailure:
    others = ", ".join(f"`{name}`" for name, standing in standings.items() if standing == "drained")
    return RuntimeFailure(
        "MS9307",
        f"stream `{stream}` goes on where {others} ended",
        notes=["they are read in step, so they must carry equally many chunks"],
    )


def _machines(steps: Sequence[Step]) -> dict[int, str]:
    """The machine of each step: the first part of its name, or of the name of one before it."""
    machines: dict[int, str] = {}
    for step in steps:
        match step:
            case DeviceStep() | HostStep() | BranchStep() | MarkStep() | SpreadStep() | JoinStep():
                machine = machine_of(step.name)
                machines[step.id] = machine
                for target in _targets(step):
                    machines.setdefault(target, machine)
            case DoneStep():
                machines[step.id] = step.machine
            case HopStep():
                continue
            case _:
                assert_never(step)
    return machines


def _targets(
    step: DeviceStep | HostStep | BranchStep | MarkStep | SpreadStep | JoinStep,
) -> list[int]:
    targets: list[Target | None]
    match step:
        case MarkStep() | JoinStep():
            targets = [step.then]
        case SpreadStep():
            targets = [*step.branches]
        case BranchStep():
            targets = [step.yes, step.no]
        case _:
            targets = [step.then, step.drained, step.last]
    found: list[int] = []
    for target in targets:
        if isinstance(target, int):
            found.append(target)
        elif target is not None:
            found += [target.first, target.otherwise]
    return found

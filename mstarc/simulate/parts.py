"""What stands where in a simulation: processes with stations, requests with channels.

They hold rows and counts as the runtime's worker, scheduler and rings do, and no value.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from mstarc.ir.chunks import (
    Chunk,
    Closed,
    Cursor,
    Event,
    History,
    Marked,
    chunk_size,
    keeps_from,
    next_event,
)
from mstarc.ir.chunks import next_item as next_pulled
from mstarc.ir.graph import Policy, Tail
from mstarc.plan.lanes import streams_of
from mstarc.plan.plan import LoopTarget, NodePlan, RunStep, Step
from mstarc.simulate.sample import Sample
from mstarc_schedule.batching import BatchPolicy, most_rows


@dataclass(slots=True, kw_only=True, eq=False)
class Channel:
    """One request's part of a stream. `sent` is the sender's count, `freed` what it knows of room.

    `history` is what has come to the reader. `waiting` is the station where its row waits.
    """

    policy: Policy
    tail: Tail | None
    capacity: int
    history: History = field(default_factory=History)
    cursor: Cursor = field(default_factory=Cursor)
    sent: int = 0
    freed: int = 0
    arrives_at: float = 0.0
    waiting: "Station | None" = None
    # Items at which a row that waits may go on, where nothing but their number decides.
    fires_at: int = 0
    # What was found last, and what it depends on: a row looks when it comes, and when it runs.
    known: "tuple[tuple[int, Cursor, int, int, bool], tuple[Event, Cursor] | None] | None" = None

    def wait(self, station: "Station", *, pulls: bool = False) -> None:
        """A row at a station waits for what comes."""
        self.waiting = station
        cut = station.step.cut
        policy = self.policy if cut is None else cut.policy
        if pulls:
            self.fires_at = self.cursor.covered + 1
        elif policy.kind == "until" or station.step.last is not None:
            self.fires_at = 0
        else:
            self.fires_at = self.cursor.start + chunk_size(policy, self.cursor.chunks)

    @property
    def room(self) -> int:
        """Items that may still be sent."""
        return self.capacity - self.sent + self.freed

    def next(self, step: RunStep) -> tuple[Event, Cursor] | None:
        """What a read gets next, marks that do not end it being passed; None while it waits."""
        history = self.history
        seen = (step.id, self.cursor, len(history.items), len(history.marks), history.closed)
        if self.known is None or self.known[0] != seen:
            self.known = (seen, self._next(step))
        return self.known[1]

    def _next(self, step: RunStep) -> tuple[Event, Cursor] | None:
        policy, tail = self.policy, self.tail
        if step.cut is not None:
            policy, tail = step.cut.policy, step.cut.tail
        found = next_event(policy, tail, self.cursor, self.history, bool)
        while found is not None and isinstance(found[0], Marked):
            if step.cut is not None and found[0].mark == step.cut.until:
                return found
            found = next_event(policy, tail, found[1], self.history, bool)
        return found

    def after(self, step: RunStep, cursor: Cursor) -> Event | None:
        """What comes behind a chunk: none while that is not known."""
        policy = step.cut.policy if step.cut is not None else self.policy
        tail = step.cut.tail if step.cut is not None else self.tail
        found = next_event(policy, tail, cursor, self.history, bool)
        return None if found is None else found[0]

    def pulled(self) -> tuple[Chunk | Closed, Cursor] | None:
        """What a pull gets next."""
        return next_pulled(self.cursor, self.history)

    def move(self, cursor: Cursor) -> int:
        """The reader goes on; how far it is free then."""
        self.cursor = cursor
        return keeps_from(self.policy, cursor)


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """A request that waits for a slot or holds one. Times are in seconds of the simulation."""

    number: int
    sample: Sample
    started_at: float = -1.0
    first_output_at: float = -1.0
    done_at: float = -1.0
    where: Mapping[int, "Process"] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    left: dict[str, int] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    context: dict[str, int] = field(default_factory=dict)
    arrived: dict[int, int] = field(default_factory=dict)
    # Rows of the chunk, or of the piece of a prompt, that its next run reads.
    chunk_rows: int = 1
    # Rows of its prompt that were read.
    read: int = 0


Rows = list[Live]


@dataclass(slots=True, kw_only=True, eq=False)
class Station:
    """A step on a process and the rows at it, as in the runtime's scheduler."""

    step: RunStep
    process: "Process"
    most: int
    is_resident: bool
    sends: tuple[tuple[str, int], ...]
    reads: tuple[str, ...]
    pulls: tuple[str, ...]
    ready: Rows = field(default_factory=list)
    blocked: Rows = field(default_factory=list)
    groups: list[Rows] = field(default_factory=list)
    turn: int = 0
    # Whether a first run has told which values make rows alike.
    has_run: bool = False

    @property
    def in_pieces(self) -> bool:
        """Whether it reads prompts in pieces."""
        return self.step.prompt is not None and self.step.prompt.pieces is not None


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """One copy of a rank on a device."""

    number: int
    rank: int
    copy: int
    device: int
    steps: Mapping[int, Step]
    nodes: Mapping[str, NodePlan]
    stations: dict[int, Station] = field(default_factory=dict)
    followers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    turn: int = 0
    is_busy: bool = False
    # (rows, how often) of each step that ran.
    batches: dict[str, dict[int, int]] = field(default_factory=dict)
    jobs: int = 0
    jobs_waiting: deque[tuple[Station, Live]] = field(default_factory=deque)

    def build_stations(self, policy: BatchPolicy, slots: int) -> None:
        """A station for each step that runs something."""
        for step in self.steps.values():
            if isinstance(step, RunStep):
                self.stations[step.id] = self._station(step, policy, slots)

    def _station(self, step: RunStep, policy: BatchPolicy, slots: int) -> Station:
        then = step.then
        comes_back = isinstance(then, LoopTarget) and then.kind == "again" and then.first == step.id
        bursts = dict(_bursts(step))
        return Station(
            step=step,
            process=self,
            most=1
            if step.kind == "host"
            else most_rows(policy, step.rows or "", step.buckets, slots),
            is_resident=comes_back
            and step.rows in ("one", "fixed")
            and not (step.reads or step.pulls),
            sends=tuple(bursts.items()),
            reads=streams_of(step.reads),
            pulls=streams_of(step.pulls),
        )


def _bursts(step: RunStep) -> list[tuple[str, int]]:
    return [(streams_of((lane,))[0], burst) for lane, burst in step.sends]

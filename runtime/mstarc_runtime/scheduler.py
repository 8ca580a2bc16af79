"""Which rows of a rank wait where, and which step runs next.

A `Station` is a step with its rows: *ready* to run, *waiting* for a chunk, *blocked* by a full
stream, *starved* of cache pages, or stepping in a resident *group*. Decisions are those of
`mstarc_schedule`; nothing here touches a tensor.
"""

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.messages import StepOutput
from mstarc_runtime.plan_api import Again, DeviceStep, HostStep
from mstarc_runtime.streaming.chunks import Chunk
from mstarc_runtime.streaming.counts import LazyCounts, Slots
from mstarc_schedule.batching import BatchPolicy, choose, most_rows, next_group

EMPTY: Slots = np.zeros(0, dtype=np.int64)


@dataclass(slots=True, kw_only=True)
class Reading:
    """How far a prompt of `total` rows has been read; `digests` of what it may share."""

    total: int
    read: int = 0
    digests: list[bytes] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.total - self.read


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """Requests that step together, pass after pass of one loop.

    `calm` counts the steps that need no look at any single request, as far as is known at
    `generation`; the first that does is prepared by settling the group anew. `left` counts the
    passes that each of them may still make. `portions[count]` is the count for the group's slots.
    `messages[passes]` is what so many calm passes sent: the next ones send it again with other
    frames.
    """

    slots: Slots
    calm: int = 0
    left: int = 0
    generation: int = -1
    batch: StepBatch | None = None
    messages: dict[int, StepOutput] = field(default_factory=dict)
    portions: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def become(self, slots: Slots) -> None:
        """Other rows: what was known of the old ones is forgotten."""
        self.slots = slots
        self.calm = 0
        self.left = 0
        self.messages = {}
        self.portions = {}

    def passed(self, passes: int, *, has_room: bool) -> None:
        """Calm passes have landed; whether streams have room for one more."""
        self.left -= passes
        self.calm = self.calm - passes if has_room else 0


@dataclass(slots=True, kw_only=True, eq=False)
class Station:
    """A step and the rows at it. `most` is the most rows of one run."""

    step: DeviceStep | HostStep
    most: int
    left: LazyCounts | None = None
    # Whether one stream alone decides when a row here may run.
    reads_one: bool = False
    ready: list[int] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    blocked: set[int] = field(default_factory=set)
    starved: list[int] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    turn: int = 0
    # Chunks that were cut for rows that then found no pages: they are read by the next run.
    chunks: dict[int, dict[str, Chunk | None]] = field(default_factory=dict)
    # The values whose shapes decide who may run together, once a first run has told.
    # How far prompts have been read that are read in pieces.
    prompts: dict[int, Reading] = field(default_factory=dict)
    shaped_by: tuple[str, ...] | None = None
    packed_by: tuple[str, ...] | None = None
    # It takes no more before something of it has landed: see `flights`.
    is_away: bool = False
    # Its groups wait for items to pull.
    is_dry: bool = False
    # Stretches of its group that are under way, the first one first: see `stretches`.
    away: list[Any] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the step calls."""
        return (self.step.node,) if isinstance(self.step, HostStep) else self.step.nodes

    @property
    def is_resident(self) -> bool:
        """Whether its rows come back to it pass after pass, and the host cuts no chunk for them."""
        return self.left is not None

    def rows(self) -> Iterator[int]:
        """The slots of all rows here."""
        yield from self.ready
        yield from self.waiting
        yield from self.blocked
        yield from self.starved
        yield from self.running
        for group in self.groups:
            yield from group.slots.tolist()

    def drop(self, slot: int) -> None:
        """Removes a request's rows. A host job that runs is not stopped: its end is ignored."""
        self.is_dry = False
        for rows in (self.ready, self.starved):
            if slot in rows:
                rows.remove(slot)
        for places in (self.waiting, self.blocked, self.running):
            places.discard(slot)
        self.chunks.pop(slot, None)
        self.prompts.pop(slot, None)
        self.leave_group(slot)

    def leave_group(self, slot: int) -> bool:
        """Removes a request from the group in which it steps; whether it was in one."""
        for group in self.groups:
            if slot in group.slots:
                group.become(group.slots[group.slots != slot])
                self.groups = [group for group in self.groups if group.slots.size]
                return True
        return False

    def starve(self, slot: int, age: Callable[[int], int]) -> None:
        """A row waits for cache pages, the oldest request in front."""
        self.leave_group(slot)
        if slot in self.ready:
            self.ready.remove(slot)
        if slot not in self.starved:
            insort(self.starved, slot, key=age)

    def unblock(self, slot: int) -> None:
        if slot in self.blocked:
            self.blocked.discard(slot)
            self.ready.append(slot)

    def feed(self) -> None:
        """Pages were given back: who was starved may try again, before others."""
        self.ready[:0] = self.starved
        self.starved.clear()

    def next_group(self) -> Group:
        """The groups take turns. Rows that are ready join one with room, or make one."""
        sizes = [group.slots.size for group in self.groups]
        index = next_group(sizes, len(self.ready), self.most)
        group = self.groups.pop(index) if index < len(sizes) else Group(slots=EMPTY)
        self.groups.append(group)
        return group


class Scheduler:
    """The stations of a rank, by step id, and whose turn it is."""

    def __init__(
        self,
        steps: Sequence[DeviceStep | HostStep],
        policy: BatchPolicy,
        *,
        slots: int,
        passes_left: Callable[[str], LazyCounts],
        goes_on: Callable[[DeviceStep], bool] = lambda step: False,
    ) -> None:
        """`goes_on`: whether a step's passes follow one another on the device."""
        self.policy = policy
        self.stations = [
            _station(step, policy, slots=slots, passes_left=passes_left, goes_on=goes_on)
            for step in steps
        ]
        self._by_step = {station.step.id: station for station in self.stations}
        self._turn = 0

    def station(self, step: int) -> Station:
        return self._by_step[step]

    def next(self) -> Station | None:
        """The station whose turn it is, or None if no row can run."""
        able = [
            station
            for station in self.stations
            if (station.ready or (station.groups and not station.is_dry)) and not station.is_away
        ]
        if not able:
            return None
        index = 0
        if len(able) > 1:
            index = choose([station.turn for station in able])
        self._turn += 1
        station = able[index]
        station.turn = self._turn
        return station

    def drop(self, slot: int) -> None:
        for station in self.stations:
            station.drop(slot)

    def feed(self) -> None:
        for station in self.stations:
            if station.starved:
                station.feed()

    def starved(self) -> list[int]:
        return [slot for station in self.stations for slot in station.starved]

    def rows(self) -> int:
        """How many rows are anywhere."""
        return sum(1 for station in self.stations for _ in station.rows())


def _station(
    step: DeviceStep | HostStep,
    policy: BatchPolicy,
    *,
    slots: int,
    passes_left: Callable[[str], LazyCounts],
    goes_on: Callable[[DeviceStep], bool],
) -> Station:
    if isinstance(step, HostStep):
        reads_one = len(step.reads) == 1 and step.last is None
        return Station(step=step, most=1, reads_one=reads_one)
    comes_back = isinstance(step.then, Again) and step.then.first == step.id
    is_resident = comes_back and step.rows in ("one", "fixed") and not step.reads
    if step.pulls:
        is_resident = is_resident and goes_on(step)
    left = None
    if is_resident:
        assert isinstance(step.then, Again)
        left = passes_left(step.then.loop)
    return Station(
        step=step,
        most=most_rows(policy, step.rows, step.buckets, slots),
        left=left,
        reads_one=len(step.reads) == 1 and not step.pulls and step.last is None,
    )

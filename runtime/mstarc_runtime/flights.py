"""Steps that the worker does not wait for: those of machines beside the one that sets the pace, and
stretches of passes, which are read when the next are under way (`stretches`).

Machines of a rank that share no node may run side by side on the device. The first with a KV cache
runs on the device's main queue, and so do those that call nodes of which other ranks hold parts:
these follow in one order, which two queues here would mix. Each set of machines that shares nothing
with the others has a CUDA stream of its own. What is launched there lands when the device has done
it: until then its rows are nowhere else, its station takes no others, and what it reads of streams
is not overwritten (`Ring.hold`).

A step beside the main queue reads what has landed, and what is written on the main queue when
requests come and go or items arrive. So it waits for that queue where something has happened since
it last did, and not for passes that are under way there.

Before a request is released its steps have landed.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.plan_api import DeviceStep, Step
from mstarc_runtime.plan_steps import machine_of
from mstarc_runtime.scheduler import Station

if TYPE_CHECKING:
    from mstarc_runtime.stretches import Stretch

# How long the device is waited for at once: messages are looked at between. And how often.
_MOST_WAIT_S = 0.0003
_LOOK_S = 0.00003


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flight:
    """A step that was launched and has not landed."""

    station: Station
    step: DeviceStep
    batch: StepBatch

    @property
    def slot_list(self) -> list[int]:
        return self.batch.slot_list

    def has_come(self) -> bool:
        return self.batch.has_come()

    def wait(self) -> None:
        self.batch.end_read_back()


class Flights:
    """The steps of one rank that are under way.

    `generation` goes up whenever the worker writes to what steps may read. Of nodes that are `led`
    other ranks hold parts.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        device: torch.device,
        generation: Callable[[], int] = lambda: 0,
        led: Collection[str] = (),
    ) -> None:
        self._device = device
        self._generation = generation
        # Each with the time at which it was launched.
        self._under_way: dict[Flight | Stretch, float] = {}
        # A machine beside the main queue, and its stream; none where the device has no queues.
        self._streams: dict[str, torch.cuda.Stream | None] = {}
        # Of each stream, the generation at which it waited for the main queue.
        self._waited: dict[torch.cuda.Stream, int] = {}
        if device.type == "cuda":
            for machines in sets_beside(steps, led):
                self._streams.update(dict.fromkeys(machines, torch.cuda.Stream(device)))

    def is_beside(self, step: DeviceStep) -> bool:
        """Whether the step runs beside the main queue."""
        return machine_of(step.name) in self._streams

    def stream_of(self, step: DeviceStep) -> torch.cuda.Stream | None:
        """The CUDA stream of a step beside the main queue."""
        return self._streams.get(machine_of(step.name))

    def queue(self, step: DeviceStep) -> AbstractContextManager[object]:
        """Where the step's device work goes."""
        stream = self.stream_of(step)
        if stream is None:
            return nullcontext()
        generation = self._generation()
        if self._waited.get(stream) != generation:
            self._waited[stream] = generation
            stream.wait_stream(torch.cuda.current_stream(self._device))
        return torch.cuda.stream(stream)

    def begin(self, flight: Flight) -> None:
        flight.station.is_away = True
        self._under_way[flight] = time.monotonic()

    def begin_stretch(self, stretch: "Stretch") -> None:
        """Its station says itself whether it takes more."""
        self._under_way[stretch] = time.monotonic()

    def landing(self) -> "Iterator[Flight | Stretch]":
        """Those that the device has done, in the order of their launch; they are landed now."""
        waiting: set[int] = set()
        for flight in list(self._under_way):
            # Of one station, in any case one after another.
            if flight in self._under_way and flight.station.step.id not in waiting:
                if flight.has_come():
                    yield self._end(flight)
                else:
                    waiting.add(flight.station.step.id)

    def finish(
        self, slot: int | None = None, station: Station | None = None
    ) -> "Iterator[Flight | Stretch]":
        """All that are under way, or those with a request's row, or of a station, once the device
        has done them."""
        for flight in list(self._under_way):
            if flight not in self._under_way or station not in (None, flight.station):
                continue
            if slot is None or slot in flight.slot_list:
                flight.wait()
                yield self._end(flight)

    def await_any(self, is_called: Callable[[], bool] = lambda: False) -> None:
        """Until the device has done one of those under way, but only for a moment, and no longer
        than until the worker `is_called`."""
        until = time.monotonic() + _MOST_WAIT_S
        while not any(flight.has_come() for flight in self._under_way):
            if time.monotonic() > until or is_called():
                return
            time.sleep(_LOOK_S)

    @property
    def count(self) -> int:
        return len(self._under_way)

    @property
    def since_s(self) -> float | None:
        """When the first of those under way was launched, by the monotonic clock."""
        return next(iter(self._under_way.values()), None)

    def _end(self, flight: "Flight | Stretch") -> "Flight | Stretch":
        station = flight.station
        station.is_away = False
        if flight in station.away:
            station.away.remove(flight)
        del self._under_way[flight]
        return flight


def sets_beside(steps: Sequence[Step], led: Collection[str] = ()) -> list[frozenset[str]]:
    """Sets of machines that share no device node with each other, without the main one: that of
    the first machine with a step that comes back by itself, or else of the first machine; nor
    those that call a node that is `led`."""
    nodes: dict[str, set[str]] = {}
    for step in steps:
        if isinstance(step, DeviceStep):
            nodes.setdefault(machine_of(step.name), set()).update(step.nodes)
    sets: list[tuple[set[str], set[str]]] = []
    for machine, used in nodes.items():
        joined, others = ({machine}, set(used)), []
        for machines, theirs in sets:
            if theirs & joined[1]:
                joined = (machines | joined[0], theirs | joined[1])
            else:
                others.append((machines, theirs))
        sets = [*others, joined]
    paced = [
        machine_of(step.name)
        for step in steps
        if isinstance(step, DeviceStep) and step.rows in ("one", "fixed")
    ]
    main = next(iter(paced or nodes), None)
    return [
        frozenset(machines)
        for machines, used in sets
        if main not in machines and used.isdisjoint(led)
    ]

"""Steps that the worker does not wait for: machines beside the one that sets the pace.

Machines of a rank that share no node may run side by side on the device. The first with a KV cache
runs on the device's main queue, and the worker waits for its flags; each set of machines that
shares nothing with it has a CUDA stream of its own. A step there is launched, and lands when the
device has done it: until then its rows are nowhere else, its station takes no others, and what it
reads of streams is not overwritten (`Ring.hold`).

Before a request is released its steps have landed.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.plan_api import DeviceStep, Step
from mstarc_runtime.plan_steps import machine_of
from mstarc_runtime.scheduler import Station


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A step that was launched and has not landed."""

    station: Station
    step: DeviceStep
    batch: StepBatch


class Flights:
    """The steps of one rank that are under way beside its main queue."""

    def __init__(self, steps: Sequence[Step], device: torch.device) -> None:
        self._device = device
        self._under_way: list[Flight] = []
        # A machine beside the main queue, and its stream; none where the device has no queues.
        self._streams: dict[str, torch.cuda.Stream | None] = {}
        if device.type == "cuda":
            for machines in sets_beside(steps):
                self._streams.update(dict.fromkeys(machines, torch.cuda.Stream(device)))

    def is_beside(self, step: DeviceStep) -> bool:
        """Whether the step runs beside the main queue."""
        return machine_of(step.name) in self._streams

    def stream_of(self, step: DeviceStep) -> torch.cuda.Stream | None:
        """The CUDA stream of a step beside the main queue."""
        return self._streams.get(machine_of(step.name))

    def queue(self, step: DeviceStep) -> AbstractContextManager[object]:
        """Where the step's device work goes. What the main queue was given so far comes first."""
        stream = self.stream_of(step)
        if stream is None:
            return nullcontext()
        stream.wait_stream(torch.cuda.current_stream(self._device))
        return torch.cuda.stream(stream)

    def begin(self, flight: Flight) -> None:
        flight.station.is_away = True
        self._under_way.append(flight)

    def landing(self) -> Iterator[Flight]:
        """Those that the device has done, in the order of their launch; they are landed now."""
        for flight in list(self._under_way):
            if flight.batch.has_come():
                yield self._end(flight)

    def finish(self, slot: int | None = None) -> Iterator[Flight]:
        """All that are under way, or those with a request's row, once the device has done them."""
        for flight in list(self._under_way):
            if slot is None or slot in flight.batch.slot_list:
                flight.batch.end_read_back()
                yield self._end(flight)

    @property
    def count(self) -> int:
        return len(self._under_way)

    def _end(self, flight: Flight) -> Flight:
        flight.station.is_away = False
        self._under_way.remove(flight)
        return flight


def sets_beside(steps: Sequence[Step]) -> list[frozenset[str]]:
    """Sets of machines that share no device node with each other, without the main one: that of
    the first machine with a step that comes back by itself, or else of the first machine."""
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
        if isinstance(step, DeviceStep) and step.rows == "one"
    ]
    main = next(iter(paced or nodes), None)
    return [frozenset(machines) for machines, _ in sets if main not in machines]

"""Takes cache pages from young requests for older ones, and gives them back later.

A request whose pages are taken keeps everything else. What its contexts held of a node goes to host
memory; its rows stay where they stand, and the first one whose turn it is brings the contexts back,
as soon as there are pages. `mstarc_schedule.preemption` says who gives way to whom. On the path of
a step that finds its pages nothing of this costs more than a look at a count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.kvcache.errors import OutOfPages
from mstarc_runtime.scheduler import Station
from mstarc_schedule.preemption import gives_way, last_resort, may_begin

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


# Turns without work after which somebody gets pages or is ended: enough for a release that is on
# its way, and a minute where requests with pages here go on elsewhere. (Two ranks whose requests
# wait for one another's pages are told from that by the time alone.)
_STARVE_TURNS = 8
_STARVE_TURNS_AMONG_RANKS = 3000


@dataclass(slots=True, kw_only=True)
class Moves:
    """How often, and how many pages, went to host memory and came back."""

    set_aside: int = 0
    brought_back: int = 0
    pages_out: int = 0
    pages_in: int = 0


class Preempter:
    """The contexts of one rank that are away."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self.moves = Moves()
        # (node, slot) pairs that are away: none, nearly always.
        self._away: set[tuple[str, int]] = set()

    @property
    def held(self) -> int:
        """Contexts of how many slots are in host memory."""
        return sum(len(engine.cache.aside) for engine in self._worker.parts.kv.values())

    @property
    def is_needed(self) -> bool:
        """Whether anything is away."""
        return bool(self._away)

    def late(self, batch: StepBatch) -> list[int]:
        """The rows that have no pages here, or have them away, and take none before older requests
        that wait for some have them.

        Were these to come first, the older ones would take their pages once more, with the next
        turn of their step, and so on: nobody would get further.
        """
        live = self._worker.live
        found: list[int] = []
        for engine in self._engines(batch):
            self._look(engine)
            older = [live[slot].request for slot in self._waiting(engine) if slot in live]
            there = set(engine.holders()) - engine.cache.aside.keys() if older else set()
            found += [
                slot
                for slot in batch.slot_list
                if older and slot not in there and not may_begin(live[slot].request, older)
            ]
        return found

    def bring_back(self, batch: StepBatch) -> None:
        """Makes the contexts of a batch's rows whole. Raises OutOfPages; some may be back then."""
        for engine in self._engines(batch):
            for slot in batch.slot_list:
                if slot in engine.cache.aside:
                    self._bring_back(engine, slot)

    def make_room(self, wanting: Sequence[int], error: OutOfPages) -> bool:
        """Takes the pages of a request that is younger than all these slots'; False if none is.

        If it has something under way, that lands first, and may give pages back by itself.
        """
        live = self._worker.live
        engine = next(
            e for e in self._worker.parts.kv.values() if e.cache.tables.allocator is error.pool
        )
        holding = {live[slot].request: slot for slot in self._holders(engine)}
        ages = {live[slot].request for slot in wanting}
        chosen = gives_way(ages, holding)
        if chosen in ages:
            return False
        if not self._worker.stepper.finish_flights(holding[chosen]):
            self._set_aside(engine, holding[chosen])
        return True

    def end_starvation(self, idle_turns: int) -> int:
        """Nobody goes on, so nobody gives pages back: one has to. How many turns that leaves."""
        worker = self._worker
        if idle_turns < _STARVE_TURNS or worker.pool.running or worker.stepper.flights.count:
            return idle_turns
        waiting = [*worker.scheduler.starved(), *worker.mover.waiting]
        if self._take_from_youngest(waiting):
            return 0
        holders = {slot for engine in worker.parts.kv.values() for slot in engine.holders()}
        # Who holds pages here and goes on elsewhere will come back, or end.
        may_get_some = not worker.plan.is_alone and holders - set(waiting)
        if may_get_some and idle_turns < _STARVE_TURNS_AMONG_RANKS:
            return idle_turns
        # Who has pages has all that could be had; else the youngest asks for too many.
        those = holders.intersection(waiting) or waiting
        worker.fail(max(those, key=lambda slot: worker.live[slot].request), _too_few(), None)
        return 0

    def _take_from_youngest(self, waiting: list[int]) -> bool:
        """Takes the pages of one that is not the oldest; False if there is none."""
        live = self._worker.live
        ages = [live[slot].request for slot in waiting]
        for engine in self._worker.parts.kv.values():
            holding = {live[slot].request: slot for slot in self._holders(engine)}
            chosen = last_resort(ages, holding)
            if chosen is not None:
                self._set_aside(engine, holding[chosen])
                return True
        return False

    def forget(self, slot: int) -> None:
        """A request is over: nothing of it is away any more."""
        if self._away:
            self._away = {away for away in self._away if away[1] != slot}

    def _engines(self, batch: StepBatch) -> Iterator[KVEngine]:
        for name in batch.step.nodes:
            engine = self._worker.parts.kv.get(name)
            if engine is not None:
                yield engine

    def _holders(self, engine: KVEngine) -> Iterator[int]:
        """The slots whose pages may be taken: all that is there, and not given back just now."""
        live = self._worker.live
        for slot in engine.holders():
            if slot in live and not live[slot].is_ending and slot not in engine.cache.aside:
                yield slot

    def _waiting(self, engine: KVEngine) -> Iterator[int]:
        """The slots that wait for pages: for more than they have, for what is away, or to come here
        from another rank. What is away may also be needed later, or not at all: then nobody waits.
        """
        yield from self._worker.mover.waiting_for(engine.name)
        for station in self._worker.scheduler.stations:
            if engine.name in station.nodes:
                yield from station.starved
                yield from engine.cache.aside.keys() & station.ready

    def _look(self, engine: KVEngine) -> None:
        """What has gone since (a context that travelled, a request that is over) is not away."""
        aside = engine.cache.aside
        self._away = {
            (node, slot) for node, slot in self._away if node != engine.name or slot in aside
        }

    def _set_aside(self, engine: KVEngine, slot: int) -> None:
        worker = self._worker
        worker.stepper.ahead.give_back()
        parted: list[Station] = []
        for station in worker.scheduler.stations:
            if engine.name in station.nodes and station.leave_group(slot):
                parted.append(station)
        worker.generation += 1
        engine.set_aside(slot)
        self._away.add((engine.name, slot))
        self.moves.set_aside += 1
        # What others hold as well goes, too, and comes back as pages of its own.
        self.moves.pages_out += engine.cache.aside[slot].pages
        worker.scheduler.feed()
        for station in parted:
            station.starve(slot, lambda other: worker.live[other].request)

    def _bring_back(self, engine: KVEngine, slot: int) -> None:
        pages = engine.cache.aside[slot].pages
        engine.bring_back(slot)
        self._away.discard((engine.name, slot))
        self.moves.brought_back += 1
        self.moves.pages_in += pages


def _too_few() -> RuntimeFailure:
    return RuntimeFailure(
        "MS9305",
        "the KV cache has too few pages for a request, even with those of all younger ones",
        notes=["what other requests held here is in host memory, or they hold nothing"],
        helps=["ask for a shorter one, or compile with a greater `kv_cache.max_num_pages`"],
    )

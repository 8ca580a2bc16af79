"""Reads prompts in pieces, so that a long one holds up nobody for longer than a piece takes.

A step with `pieces` reads at most the token budget's rows of its requests together. A prompt that
is longer is read by several runs: all but the last leave rows in the request's context and nothing
else, and between two of them other stations have their turns. Where the plan says that a prompt's
rows follow from its tokens, what others have read of an equal beginning is taken over instead.

Pages are shared one by one, unless a request's numbers may not depend on what ran before: then it
is by whole pieces, so that every row is computed among the same ones.

Not here: how long a piece is and who goes first (`mstarc_schedule.batching`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.sharing import PromptSharing
from mstarc_runtime.kvcache.prefixes import PrefixCounts, digests_of
from mstarc_runtime.plan_api import DeviceStep, Pieces, Step
from mstarc_runtime.scheduler import Reading, Station
from mstarc_schedule.batching import behind_whole, piece_of, take_packed

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class PromptReader:
    """How far the prompts of one rank have been read."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        # By node whose prompts are shared; none where pages do not suit.
        self._sharing: dict[str, PromptSharing | None] = {}

    def counts(self) -> dict[str, PrefixCounts]:
        """What was shared, by node."""
        return {node: made.index.counts for node, made in self._sharing.items() if made is not None}

    def give_up(self) -> None:
        """Keeps no prompts any more that no request uses."""
        for made in self._sharing.values():
            if made is not None:
                made.index.clear()

    def choose(self, station: Station, step: DeviceStep, able: list[int]) -> list[int]:
        """Which of the rows that may run do: one whose prompt goes on runs alone."""
        assert step.pieces is not None
        pieces, policy = step.pieces, self._worker.scheduler.policy
        sharing = self._sharing_of(pieces)
        lefts = []
        for slot in able[: station.most]:
            reading = self._reading(station, step, slot)
            if sharing is not None and not reading.read:
                reading.read = sharing.adopt(slot, pieces, reading.digests, reading.total)
            lefts.append(reading.left)
        return able[: take_packed(policy, lefts, station.most)]

    def cut(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        """Which rows of their prompts the batch reads."""
        if step.pieces is None:
            return
        policy = self._worker.scheduler.policy
        windows = []
        for slot in batch.slot_list:
            reading = self._reading(station, step, slot)
            rows = piece_of(policy, reading.left)
            windows.append(slice(reading.read, reading.read + rows))
            batch.is_partial = rows < reading.left
        assert batch.size == 1 or not batch.is_partial, "a prompt that goes on runs alone"
        batch.windows = dict.fromkeys(step.pieces.of, windows)

    def landed(self, station: Station, step: DeviceStep, batch: StepBatch) -> bool:
        """Counts what a run has read; True if its request has more, and waits for its next turn."""
        assert step.pieces is not None
        sharing = self._sharing_of(step.pieces)
        windows = batch.windows[step.pieces.of[0]]
        for row, (slot, rows) in enumerate(zip(batch.slot_list, windows, strict=True)):
            if slot not in station.running:
                continue  # its request is over
            reading = self._reading(station, step, slot)
            reading.read = rows.stop
            if sharing is not None and reading.digests:
                sharing.keep(batch, step.pieces, row, reading.digests)
        if not batch.is_partial:
            for slot in batch.slot_list:
                station.prompts.pop(slot, None)
            return False
        for slot in batch.slot_list:
            if slot in station.running:
                station.running.discard(slot)
                self._wait_again(station, step, slot)
        return True

    def _reading(self, station: Station, step: DeviceStep, slot: int) -> Reading:
        reading = station.prompts.get(slot)
        if reading is None:
            assert step.pieces is not None
            digests = self._digests(step, step.pieces, slot)
            total = self._worker.parts.values[step.pieces.of[0]].shape(slot)[0]
            reading = station.prompts[slot] = Reading(total=total, digests=digests)
        return reading

    def _digests(self, step: DeviceStep, pieces: Pieces, slot: int) -> list[bytes]:
        """Of each unit of a prompt that may be shared; before a device has the tokens."""
        sharing = self._sharing_of(pieces)
        if sharing is None:
            return []
        values = self._worker.parts.values
        rows = [value for name in pieces.of if (value := values[name].on_host(slot)) is not None]
        if len(rows) < len(pieces.of):
            return []
        return digests_of(f"{step.id} {pieces.op}", rows, sharing.unit)

    def _sharing_of(self, pieces: Pieces) -> PromptSharing | None:
        """None where a step's prompts are its own, whatever other steps of the node do."""
        if not pieces.shared:
            return None
        if pieces.node not in self._sharing:
            self._sharing[pieces.node] = self._made(pieces)
        return self._sharing[pieces.node]

    def _made(self, pieces: Pieces) -> PromptSharing | None:
        engine = self._worker.parts.kv[pieces.node]
        policy, page = self._worker.scheduler.policy, engine.cache.layout.page_size
        unit = policy.token_budget if policy.deterministic else page
        return PromptSharing(engine, unit) if unit % page == 0 else None

    def _wait_again(self, station: Station, step: DeviceStep, slot: int) -> None:
        rows = [slot, *station.ready]
        lefts = [self._reading(station, step, other).left for other in rows]
        station.ready = [
            rows[index] for index in behind_whole(self._worker.scheduler.policy, lefts)
        ]


def sharing_nodes(steps: Sequence[Step]) -> set[str]:
    """The nodes of which requests may use pages that others have filled."""
    pieces = [step.pieces for step in steps if isinstance(step, DeviceStep)]
    return {each.node for each in pieces if each is not None and each.shared}


def without_sharing(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, none of which lets a request use pages that another has filled."""
    return tuple(
        replace(step, pieces=replace(step.pieces, shared=False))
        if isinstance(step, DeviceStep) and step.pieces is not None
        else step
        for step in steps
    )

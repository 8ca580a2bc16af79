"""Reads prompts in pieces, so that a long one holds up nobody for longer than a piece takes.

A step with `pieces` reads at most the token budget's rows of its requests together. A prompt that
is longer is read by several runs: all but the last leave rows in the request's context and nothing
else, and between two of them other stations have their turns.

Not here: how long a piece is and who goes first (`mstarc_schedule.batching`).
"""

from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.plan_api import DeviceStep, Pieces
from mstarc_runtime.scheduler import Reading, Station
from mstarc_schedule.batching import behind_whole, piece_of, take_packed

if TYPE_CHECKING:
    from mstarc_runtime.worker import Worker


class PromptReader:
    """How far the prompts of one rank have been read."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    def choose(self, station: Station, step: DeviceStep, able: list[int]) -> list[int]:
        """Which of the rows that may run do: one whose prompt goes on runs alone."""
        assert step.pieces is not None
        policy = self._worker.scheduler.policy
        lefts = [self._reading(station, step.pieces, slot).left for slot in able[: station.most]]
        return able[: take_packed(policy, lefts, station.most)]

    def cut(self, station: Station, step: DeviceStep, batch: StepBatch) -> None:
        """Which rows of their prompts the batch reads."""
        if step.pieces is None:
            return
        policy = self._worker.scheduler.policy
        windows = []
        for slot in batch.slot_list:
            reading = self._reading(station, step.pieces, slot)
            rows = piece_of(policy, reading.left)
            windows.append(slice(reading.read, reading.read + rows))
            batch.is_partial = rows < reading.left
        assert batch.size == 1 or not batch.is_partial, "a prompt that goes on runs alone"
        batch.windows = dict.fromkeys(step.pieces.of, windows)

    def landed(self, station: Station, step: DeviceStep, batch: StepBatch) -> bool:
        """Counts what a run has read; True if its request has more, and waits for its next turn."""
        assert step.pieces is not None
        windows = batch.windows[step.pieces.of[0]]
        for slot, rows in zip(batch.slot_list, windows, strict=True):
            if slot in station.running:
                self._reading(station, step.pieces, slot).read = rows.stop
        if not batch.is_partial:
            for slot in batch.slot_list:
                station.prompts.pop(slot, None)
            return False
        for slot in batch.slot_list:
            if slot in station.running:
                station.running.discard(slot)
                self._wait_again(station, step.pieces, slot)
        return True

    def _reading(self, station: Station, pieces: Pieces, slot: int) -> Reading:
        reading = station.prompts.get(slot)
        if reading is None:
            total = self._worker.parts.values[pieces.of[0]].shape(slot)[0]
            reading = station.prompts[slot] = Reading(total=total)
        return reading

    def _wait_again(self, station: Station, pieces: Pieces, slot: int) -> None:
        rows = [slot, *station.ready]
        lefts = [self._reading(station, pieces, other).left for other in rows]
        station.ready = [
            rows[index] for index in behind_whole(self._worker.scheduler.policy, lefts)
        ]

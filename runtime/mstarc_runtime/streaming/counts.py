"""Counts a slot, cheap where the same requests count again and again.

A steady batch adds one to each of its slots every step. `LazyCounts` remembers that as one number
beside the batch's array and adds it to the slots when somebody asks.
"""

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int64]


class LazyCounts:
    """An i64 count for each slot."""

    __slots__ = ("_counts", "_pending", "_slots")

    def __init__(self, slots: int) -> None:
        self._counts: NDArray[np.int64] = np.zeros(slots, dtype=np.int64)
        self._slots: Slots | None = None
        self._pending = 0

    def add(self, slots: Slots, count: int) -> None:
        """Adds `count` to each of `slots`, an array that is never changed in place."""
        if slots is not self._slots:
            self.settle()
            self._slots = slots
        self._pending += count

    def settle(self) -> NDArray[np.int64]:
        """The counts of all slots, with nothing pending. Writing to them changes them."""
        if self._pending:
            assert self._slots is not None
            self._counts[self._slots] += self._pending
            self._pending = 0
        return self._counts

    def get(self, slot: int) -> int:
        return int(self.settle()[slot])

    def set(self, slot: int, count: int) -> None:
        self.settle()[slot] = count

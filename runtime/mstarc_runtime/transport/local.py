"""Participants of one process: parcels are handed over as they are."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence

from mstarc_runtime.frames import Frame
from mstarc_runtime.messages import Message
from mstarc_runtime.run_choices import HIGH_WATER_MARK
from mstarc_runtime.transport.mailbox import Parcel


class LocalNetwork:
    """The mailboxes of one process, made when they are first named."""

    def __init__(self, high_water_mark: int = HIGH_WATER_MARK) -> None:
        self.high_water_mark = high_water_mark
        self._boxes: dict[int, LocalMailbox] = {}

    def mailbox(self, participant: int) -> "LocalMailbox":
        if participant not in self._boxes:
            self._boxes[participant] = LocalMailbox(self)
        return self._boxes[participant]

    def lengths(self) -> dict[int, tuple[int, int]]:
        """For each participant, parcels that wait for it, and that it could not send."""
        return {number: (box.waiting, box.backlog) for number, box in self._boxes.items()}


class LocalMailbox:
    """One participant's queue, and what it could not send yet."""

    def __init__(self, network: LocalNetwork) -> None:
        self._network = network
        self._queue: deque[Parcel] = deque()
        self._kept: dict[int, deque[Parcel]] = {}
        self._woken = threading.Event()

    @property
    def waiting(self) -> int:
        """Parcels that have come and were not received."""
        return len(self._queue)

    @property
    def backlog(self) -> int:
        return sum(len(parcels) for parcels in self._kept.values()) if self._kept else 0

    def send(self, to: int, message: Message, frames: Sequence[Frame] = ()) -> None:
        parcel = Parcel(message, frames)
        if to in self._kept or not self._network.mailbox(to).deliver(parcel):
            self._kept.setdefault(to, deque()).append(parcel)

    def succeed(self, to: int, successor: int) -> None:
        raise AssertionError("participants of one process end together")

    def drain(self, to: Iterable[int]) -> None:
        if not self._kept:
            return
        wanted = set(to)
        while wanted & self._kept.keys():
            self._send_kept()
            time.sleep(0)

    def deliver(self, parcel: Parcel) -> bool:
        """Takes a parcel in; False if there is no room for one."""
        if len(self._queue) >= self._network.high_water_mark:
            return False
        self._queue.append(parcel)
        self._woken.set()
        return True

    def has_parcel(self) -> bool:
        return bool(self._queue)

    def receive(self) -> Parcel | None:
        if self._kept:
            self._send_kept()
        return self._queue.popleft() if self._queue else None

    def wait(self, timeout_s: float) -> None:
        if not self._queue:
            self._woken.wait(min(timeout_s, 0.001) if self._kept else timeout_s)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._queue.clear()
        self._kept.clear()

    def _send_kept(self) -> None:
        for to, parcels in list(self._kept.items()):
            box = self._network.mailbox(to)
            while parcels and box.deliver(parcels[0]):
                parcels.popleft()
            if not parcels:
                del self._kept[to]

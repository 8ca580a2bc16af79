"""Participants of one process: parcels are handed over as they are."""

import threading
from collections import deque
from collections.abc import Sequence

from mstarc_runtime.messages import Frame, Message
from mstarc_runtime.transport.mailbox import Parcel


class LocalNetwork:
    """The mailboxes of one process, made when they are first named."""

    def __init__(self) -> None:
        self._boxes: dict[int, LocalMailbox] = {}

    def mailbox(self, participant: int) -> "LocalMailbox":
        if participant not in self._boxes:
            self._boxes[participant] = LocalMailbox(self)
        return self._boxes[participant]


class LocalMailbox:
    """One participant's queue."""

    def __init__(self, network: LocalNetwork) -> None:
        self._network = network
        self._queue: deque[Parcel] = deque()
        self._woken = threading.Event()

    def send(self, to: int, message: Message, frames: Sequence[Frame] = ()) -> None:
        self._network.mailbox(to).deliver(Parcel(message, frames))

    def deliver(self, parcel: Parcel) -> None:
        self._queue.append(parcel)
        self._woken.set()

    def receive(self) -> Parcel | None:
        return self._queue.popleft() if self._queue else None

    def wait(self, timeout_s: float) -> None:
        if not self._queue:
            self._woken.wait(timeout_s)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._queue.clear()

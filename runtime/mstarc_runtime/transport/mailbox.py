"""What a participant of a run may do with messages."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from mstarc_runtime.frames import Frame
from mstarc_runtime.messages import Message

CONDUCTOR = -1


class Parcel(NamedTuple):
    """A message and its frames."""

    message: Message
    frames: Sequence[Frame]


class Mailbox(Protocol):
    """Sends to participants by number (`CONDUCTOR` or a process) and receives for one.

    Sending never waits: what the way to a participant has no room for stays here, in order, and
    leaves while this one receives or waits. Whoever sees a `backlog` makes no more of it.
    """

    @property
    def backlog(self) -> int:
        """Parcels that could not leave yet."""
        ...

    def send(self, to: int, message: Message, frames: Sequence[Frame] = ()) -> None: ...

    def succeed(self, to: int, successor: int) -> None:
        """A participant is gone: what it has not received is dropped, the next goes to another.

        `successor` counts those that have had its number before.
        """
        ...

    def drain(self, to: Iterable[int]) -> None:
        """Returns when all that was sent to these has left."""
        ...

    def has_parcel(self) -> bool:
        """Whether a parcel is there: the next `receive` gives it."""
        ...

    def receive(self) -> Parcel | None:
        """The next parcel, if one is there."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Returns when there may be a parcel, when `wake` was called, or after the time."""
        ...

    def wake(self) -> None:
        """Ends a `wait`, from any thread."""
        ...

    def close(self) -> None: ...

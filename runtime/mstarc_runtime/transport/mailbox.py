"""What a participant of a run may do with messages."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mstarc_runtime.messages import Frame, Message

CONDUCTOR = -1


class Parcel(NamedTuple):
    """A message and its frames."""

    message: Message
    frames: Sequence[Frame]


class Mailbox(Protocol):
    """Sends to participants by number (`CONDUCTOR` or a process) and receives for one."""

    def send(self, to: int, message: Message, frames: Sequence[Frame] = ()) -> None: ...

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

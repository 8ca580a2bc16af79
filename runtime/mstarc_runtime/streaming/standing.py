"""What a reader of a stream waits for, and who is told when it has come."""

from typing import Literal, Protocol

from mstarc_runtime.plan_api import Policy

Standing = Literal["ready", "last", "waiting", "drained", "empty"]


class StreamListener(Protocol):
    """Who is told when a waiting reader can go on, and when a reader has made room."""

    def reader_woken(self, stream: str, slot: int, has_chunk: bool) -> None:
        """`has_chunk`: there is one to take; otherwise the stream has closed."""
        ...

    def room_made(self, stream: str, slot: int, read_to: int) -> None: ...


def is_single(policy: Policy) -> bool:
    """Whether a chunk is handed over as the item that it holds."""
    return policy.kind == "fixed" and policy.size == 1

"""Work beside asyncio's thread, where it is worth the way there."""

from collections.abc import Callable
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool

# What takes less time than the way to a thread and back: some hundred µs.
_SMALL_BYTES: Final = 16_384
Made = TypeVar("Made")


async def in_thread(work: Callable[[], Made], *, size_bytes: int) -> Made:
    """What `work` makes, of so many bytes: in a thread unless they are few."""
    if size_bytes <= _SMALL_BYTES:
        return work()
    return await run_in_threadpool(work)

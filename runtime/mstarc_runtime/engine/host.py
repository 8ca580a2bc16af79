"""The engine of host nodes: Python code for one request at a time, and the pool that runs it.

A `stateful` op has one state object a request. A class that has such ops has a method `begin()`
that makes the object; the op gets it as its first argument. `using` says whose request an op is
called for, in the thread that calls it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol


class HostEngine:
    """A node of host code on one rank, or in the conductor."""

    def __init__(self, name: str, implementation: Any) -> None:
        self.name = name
        self._implementation = implementation
        self._states: dict[int, Any] = {}
        self._current = threading.local()
        self._stateful = frozenset(getattr(implementation, "stateful", ()))

    @contextmanager
    def using(self, slot: int) -> Iterator[None]:
        """Ops called in this thread are for `slot`."""
        self._current.slot = slot
        yield

    def finish(self, slot: int) -> Any:
        """What is left in a request's state when its items are over; None without one."""
        state = self._states.get(slot)
        end = getattr(self._implementation, "end", None)
        return None if state is None or end is None else end(state)

    def release(self, slot: int) -> None:
        self._states.pop(slot, None)

    @property
    def held(self) -> int:
        """Requests that have a state object here."""
        return len(self._states)

    def __getattr__(self, op: str) -> Callable[..., Any]:
        if op.startswith("_"):
            raise AttributeError(op)
        method: Callable[..., Any] = getattr(self._implementation, op)
        if op not in self._stateful:
            return method

        def call(*arguments: Any) -> Any:
            slot: int = self._current.slot
            state = self._states.get(slot)
            if state is None:
                state = self._states[slot] = self._implementation.begin()
            return method(state, *arguments)

        return call


class HostPool(Protocol):
    """Runs host code beside the device's."""

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], None],
        *,
        here: bool = False,
    ) -> None:
        """Runs `work`, `here` before it returns; `done(result, error)` is called by a later
        `drain`."""
        ...

    def drain(self) -> bool:
        """Calls `done` of all that has finished; whether there was anything."""
        ...

    @property
    def running(self) -> int:
        """Works that have not been drained."""
        ...

    def now_ns(self) -> int:
        """The clock by which works take time."""
        ...

    def close(self) -> None: ...


Done = Callable[[Any, BaseException | None], None]


class InlinePool:
    """Runs works at the next `drain`, in the caller's thread: for tests with a virtual clock."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Done]] = deque()

    def submit(self, work: Callable[[], Any], done: Done, *, here: bool = False) -> None:
        self._waiting.append((work, done))

    def drain(self) -> bool:
        if not self._waiting:
            return False
        work, done = self._waiting.popleft()
        try:
            result = work()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)
        return True

    @property
    def running(self) -> int:
        return len(self._waiting)

    def now_ns(self) -> int:
        return 0  # works are done between two looks at the clock

    def close(self) -> None:
        self._waiting.clear()


class ThreadPool:
    """Runs works in threads; `wake` is called from them when one has finished."""

    def __init__(self, threads: int, wake: Callable[[], None]) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="host")
        self._finished: deque[tuple[Future[Any], Done]] = deque()
        self._running = 0
        self._wake = wake

    def submit(self, work: Callable[[], Any], done: Done, *, here: bool = False) -> None:
        self._running += 1
        if here:
            self._finished.append((_done_here(work), done))
            return
        future = self._executor.submit(work)

        def finish(finished: Future[Any]) -> None:
            self._finished.append((finished, done))
            self._wake()

        future.add_done_callback(finish)

    def drain(self) -> bool:
        if not self._finished:
            return False
        while self._finished:
            future, done = self._finished.popleft()
            self._running -= 1
            error = future.exception()
            done(None if error else future.result(), error)
        return True

    @property
    def running(self) -> int:
        return self._running

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)


def _done_here(work: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future

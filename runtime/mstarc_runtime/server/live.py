"""One request's answer on its way from the ranks' thread to its client.

The ranks' thread puts what comes and never waits; asyncio takes it out in portions: texts and
sounds that follow one another are joined, so a slow client gets fewer and larger events. What a
client leaves unread is bounded: above `most_bytes` its request, and no other, ends with MS9313.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.playback import Playback


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """More of a text."""

    output: str
    piece: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """More of a sound: `samples` f32[N] at `rate` hertz."""

    output: str
    samples: NDArray[np.float32]
    rate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A whole value: an image u8[3, H, W], or any tensor."""

    output: str
    array: NDArray[Any]


Event = Text | Sound | Value
_MOST_JOINED = 1 << 18


class Live:
    """A request that a client waits for. Made in asyncio's thread; it is the conductor's listener.

    `on_over` is called in asyncio's thread when the ranks are through with the request: then it
    holds nothing any more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        most_bytes: int,
        give_up: Callable[["Live"], None],
        on_over: Callable[["Live"], None],
    ) -> None:
        # The conductor's number: of the ranks' thread.
        self.number: int | None = None
        self.tokens = 0
        self.tokens_of: dict[str, int] = {}
        # Rows that were read before an output's first token, where that is known.
        self.read: dict[str, int] = {}
        self.failure: RuntimeFailure | None = None
        self.is_over = False
        self.was_cancelled = False
        # How each sound is heard by who plays it at once.
        self.playing: dict[str, Playback] = {}
        self._loop = loop
        self._most_bytes = most_bytes
        self._give_up = give_up
        self._on_over = on_over
        self._lock = threading.Lock()
        self._thread = threading.get_ident()
        self._events: list[Event] = []
        self._bytes = 0
        self._is_told = False
        self._has_ended = False
        # Whoever waits for more.
        self._waiting: asyncio.Future[None] | None = None

    # In the ranks' thread

    def text(self, output: str, piece: str) -> None:
        self._put(Text(output=output, piece=piece))

    def sound(self, output: str, samples: NDArray[np.float32], rate: int) -> None:
        if len(samples):
            # A copy: the samples may lie in a buffer of the batch.
            kept = np.array(samples, dtype=np.float32)
            if output not in self.playing:
                self.playing[output] = Playback()
            self.playing[output].came(len(kept) / rate)
            self._put(Sound(output=output, samples=kept, rate=rate))

    def value(self, output: str, value: Any) -> None:
        array = np.array(value.cpu().float() if _is_bf16(value) else value)
        self._put(Value(output=output, array=array))

    def count_tokens(self, output: str, count: int) -> None:
        self.tokens += count
        self.tokens_of[output] = self.tokens_of.get(output, 0) + count

    def finished(self) -> None:
        self._end(None)

    def failed(self, failure: RuntimeFailure) -> None:
        self._end(failure)

    def cancelled(self) -> None:
        self.was_cancelled = True
        self._end(None)

    def _put(self, event: Event) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self._events.append(event)
            self._bytes += _size(event)
            is_full = self._bytes > self._most_bytes
            if is_full:
                self._events.clear()
                self.failure = _too_slow(self._most_bytes)
        if is_full:
            self._give_up(self)
        self._tell()

    def _end(self, failure: RuntimeFailure | None) -> None:
        with self._lock:
            self.failure = self.failure or failure
            self._has_ended = True
        self._tell()

    def _tell(self) -> None:
        if threading.get_ident() == self._thread:
            # There is nobody to be woken.
            self._wake()
            return
        with self._lock:
            if self._is_told:
                return
            self._is_told = True
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._wake)

    # In asyncio's thread

    def end(self, failure: RuntimeFailure) -> None:
        """Ends the request with a failure, unless it has ended; what was not taken is gone."""
        with self._lock:
            if self.failure is not None or self._has_ended:
                return
            self._events.clear()
            self.failure = failure
        self._give_up(self)
        self._call()

    def _wake(self) -> None:
        with self._lock:
            self._is_told = False
            ended = self._has_ended
        if ended and not self.is_over:
            self.is_over = True
            self._on_over(self)
        self._call()

    def _call(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def take(self) -> list[Event]:
        """What came since, at least one event; none at the end. Raises what it fails with."""
        while True:
            with self._lock:
                taken = self._events
                if taken:
                    self._events = []
                failure, is_over = self.failure, self.is_over
            if taken:
                return _joined(taken)
            if failure is not None:
                raise failure
            if is_over:
                return []
            # Whatever is put from here on wakes us, in this thread and so after this line.
            self._waiting = self._loop.create_future()
            await self._waiting

    def took(self, event: Event) -> None:
        """An event is handed on: only what is left is unread."""
        with self._lock:
            self._bytes -= _size(event)


def _joined(events: list[Event]) -> list[Event]:
    """The events, those of one output that follow one another as one, up to `_MOST_JOINED`.

    To write a large one takes long, in which nobody else is answered.
    """
    if len(events) < 2:
        return events
    runs: list[list[Event]] = []
    joined_bytes = 0
    for event in events:
        size = _size(event)
        joined_bytes += size
        if runs and joined_bytes <= _MOST_JOINED and _continues(runs[-1][-1], event):
            runs[-1].append(event)
        else:
            runs.append([event])
            joined_bytes = size
    return [_join(run) for run in runs]


def _size(event: Event) -> int:
    """Bytes."""
    match event:
        case Text(piece=piece):
            return len(piece.encode("utf-8", "replace"))
        case Sound(samples=samples):
            return samples.nbytes
        case Value(array=array):
            return array.nbytes


def _continues(before: Event, event: Event) -> bool:
    if isinstance(event, Value) or type(before) is not type(event):
        return False
    return before.output == event.output


def _join(run: list[Event]) -> Event:
    first = run[0]
    if len(run) == 1:
        return first
    if isinstance(first, Text):
        pieces = [event.piece for event in run if isinstance(event, Text)]
        return Text(output=first.output, piece="".join(pieces))
    assert isinstance(first, Sound)
    parts = [event.samples for event in run if isinstance(event, Sound)]
    return Sound(output=first.output, samples=np.concatenate(parts), rate=first.rate)


def _is_bf16(value: Any) -> bool:
    return isinstance(value, Tensor) and str(value.dtype) == "torch.bfloat16"


def _too_slow(most_bytes: int) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9313",
        f"the client has left more than {most_bytes / 1e6:.0f} MB of its answer unread",
        notes=["its request was ended, so that it holds no memory and no pages"],
    )

"""How long a process may be silent, and how often one that is lost is started again.

A rank's process has a `Heart`: a thread that writes to a pipe how long the present turn lasts.
`Pulse` is the other end. A process that is stopped, or starved, or stuck in an extension that holds
the interpreter, writes nothing; one whose step never ends says so itself. `Restarts` counts what
was lost: a few times in a while are bad luck, more are a fault that starting again does not cure.
"""

import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

_BEAT = struct.Struct("<d")
BEAT_S = 0.25
_READ_BYTES = 4096
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What is done about processes that are lost.

    One that has been silent for `silence_s`, or at one turn for `turn_s`, is killed. What is lost
    is started again, at most `restarts` times in `window_s`; 0 is never.
    """

    restarts: int = 5
    window_s: float = 600.0
    silence_s: float = 20.0
    turn_s: float = 600.0


class Restarts:
    """Whether and when to start again, by the times at which something was lost.

    The first time in a window it is at once; then after 1, 2, 4 … seconds, 30 at most.

    >>> restarts = Restarts(Supervision(restarts=2, window_s=60.0))
    >>> restarts.wait_s(0.0), restarts.wait_s(5.0), restarts.wait_s(9.0), restarts.wait_s(70.0)
    (0.0, 1.0, None, 0.0)
    """

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._lost_s: deque[float] = deque()
        self.total = 0

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until what was lost now is started again; None for not any more."""
        while self._lost_s and now_s - self._lost_s[0] > self._supervision.window_s:
            self._lost_s.popleft()
        before = len(self._lost_s)
        if before >= self._supervision.restarts:
            return None
        self._lost_s.append(now_s)
        self.total += 1
        return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (before - 1)) if before else 0.0


class Heart:
    """Beats in a process of its own accord, until it ends or nobody listens."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._began_s: float | None = None
        os.set_blocking(pipe, False)
        threading.Thread(target=self._beat, name="heart", daemon=True).start()

    def turn_begins(self, since_s: float | None = None) -> None:
        """A turn begins, which goes on with what a device has been doing `since_s`."""
        self._began_s = time.monotonic() if since_s is None else since_s

    def turn_ends(self) -> None:
        self._began_s = None

    def _beat(self) -> None:
        with suppress(BrokenPipeError):
            while True:
                began_s = self._began_s
                lasts_s = 0.0 if began_s is None else time.monotonic() - began_s
                with suppress(BlockingIOError):  # full: whoever listens has enough to read
                    os.write(self._pipe, _BEAT.pack(lasts_s))
                time.sleep(BEAT_S)


class Pulse:
    """The end of a pipe at which a process's heart is heard. Close it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pipe, self.far_end = os.pipe()
        self._heard_s: float | None = None
        self._looked_s = clock()
        self._turn_s = 0.0
        os.set_blocking(self._pipe, False)

    def forget_far_end(self) -> None:
        """The process has it: here it is closed."""
        os.close(self.far_end)

    def look(self) -> tuple[float, float]:
        """(seconds since it was last heard, seconds that its turn had lasted by then).

        The time in which nobody looked is not counted: then it was this process that stood still.
        """
        now_s = self._clock()
        stood_still_s = now_s - self._looked_s - BEAT_S
        self._looked_s = now_s
        heard = b""
        with suppress(BlockingIOError):
            while piece := os.read(self._pipe, _READ_BYTES):
                heard = piece
        if heard:
            self._heard_s = now_s
            (self._turn_s,) = _BEAT.unpack(heard[-_BEAT.size :])
        elif self._heard_s is not None and stood_still_s > 0:
            self._heard_s = min(now_s, self._heard_s + stood_still_s)
        return (0.0 if self._heard_s is None else now_s - self._heard_s), self._turn_s

    def close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

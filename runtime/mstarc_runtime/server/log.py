"""What a server says on stderr: lines for people, or a JSON object a line.

Each thing that happens has an `event`, a level and fields; a line for people has their text. What
the HTTP library warns of goes the same way. Lines of calls that went well are written together,
some milliseconds later; whatever else is said is written at once, after them.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec

from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.server.calls import Call
from mstarc_runtime.weights.progress import Advance, Progress, progress_to

if TYPE_CHECKING:
    from mstarc_runtime.server.followed import Followed

Level = Literal["info", "warning", "error"]
# How long lines of calls are kept, to be written together: a write takes as long as making ten.
_KEPT_S = 0.05
LEVELS: tuple[Level, ...] = ("info", "warning", "error")
# Asked every few seconds by machines, or parts of the page: their answers are no news.
QUIET = ("/health", "/live", "/ready", "/metrics", "/debug/live")
PARTS = "/page/"


class Log:
    """Where it goes, as which format, and what is worth a line."""

    def __init__(
        self, *, as_json: bool = False, least: Level = "info", stream: IO[str] | None = None
    ) -> None:
        self.as_json = as_json
        self._least = LEVELS.index(least)
        self._stream = stream
        self._kept: list[str] = []
        self._lock = threading.Lock()

    def say(self, text: str, event: str = "server", level: Level = "info", **fields: Any) -> None:
        """One thing that happened. Where nobody can read it, the work goes on."""
        if LEVELS.index(level) < self._least:
            return
        self._keep(self._lined(text, event, level, fields))
        self.write()

    def write(self) -> None:
        """Writes what is kept, whole lines in their order, from any thread."""
        with self._lock, suppress(OSError, ValueError):
            kept, self._kept = self._kept, []
            if kept:
                print("\n".join(kept), file=self._stream or sys.stderr, flush=True)

    def _keep(self, line: str) -> bool:
        """Whether it is the first that is kept."""
        with self._lock:
            self._kept.append(line)
            return len(self._kept) == 1

    def _lined(self, text: str, event: str, level: Level, fields: Mapping[str, Any]) -> str:
        if not self.as_json:
            return text
        said = {"time": _now(), "level": level, "event": event, "message": text, **fields}
        return msgspec.json.encode(said).decode()

    def failure(self, failure: RuntimeFailure, event: str = "failure") -> None:
        """A failure with its notes and helps."""
        if not self.as_json:
            self.say(render(failure), level="error")
            return
        self.say(
            failure.message,
            event,
            "error",
            code=failure.code,
            notes=list(failure.notes),
            helps=list(failure.helps),
        )

    def call(self, call: Call) -> None:
        """A call that is over, with what its requests have made."""
        path = call.path
        if call.status < 400 and (path in QUIET or path.startswith(PARTS)):
            return
        made = _Made(call.requests) if call.requests else None
        went_well = call.status < 500 and (made is None or made.failure is None)
        if went_well and self._least:
            return
        if self.as_json:
            fields = _fields(call, made)
            level: Level = "info" if went_well else "warning"
            line = self._lined(f"{call.method} {path}", "request", level, fields)
        else:
            line = _line(call, made)
        is_first = self._keep(line)
        if not went_well:
            self.write()
        elif is_first:
            # A little later, with others'.
            asyncio.get_running_loop().call_later(_KEPT_S, self.write)

    def crash(self, call: Call, error: Exception) -> None:
        """A mistake of ours while a call was answered."""
        trace = "".join(traceback.format_exception(error))
        if self.as_json:
            said = f"{type(error).__name__}: {error}"
            self.say(said, "crashed", "error", id=call.id, path=call.path, traceback=trace)
        else:
            self.say(f"{call.method} {call.path} crashed  {call.id}\n{trace}", "crashed", "error")

    def progress(self) -> Progress:
        """Where the loading of weights is shown."""
        return _Lines(self) if self.as_json else progress_to(self._stream)

    def take_warnings(self) -> None:
        """Has the HTTP library's warnings come here."""
        for name in ("uvicorn", "uvicorn.error"):
            logger = logging.getLogger(name)
            logger.handlers = [_Handler(self)] if name == "uvicorn" else []
            logger.propagate = name != "uvicorn"


class _Lines:
    """Steps of loading, one line each."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @contextmanager
    def step(self, label: str, total_bytes: int | None) -> Iterator[Advance]:
        self._log.say(label, "loading", bytes=total_bytes)
        yield lambda done: None


class _Handler(logging.Handler):
    """Records of the standard library's logging → the log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {}
        text = record.getMessage()
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            if self._log.as_json:
                fields["traceback"] = trace
            else:
                text = f"{text}\n{trace}"
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.say(text, "http", level, **fields)


class _Made:
    """What the requests of a call have made, and the first failure among them."""

    __slots__ = ("failure", "first_s", "numbers", "sound_s", "tokens")

    def __init__(self, requests: Sequence["Followed"]) -> None:
        self.numbers: list[int | None] = []
        self.tokens, self.sound_s = 0, 0.0
        self.first_s: float | None = None
        self.failure: RuntimeFailure | None = None
        for one in requests:
            live = one.live
            self.numbers.append(live.number)
            self.tokens += live.tokens
            self.sound_s += one.sound_s
            self.failure = self.failure or live.failure
            first_s = one.first_output_s
            if first_s is not None and (self.first_s is None or first_s < self.first_s):
                self.first_s = first_s


def _fields(call: Call, made: _Made | None) -> dict[str, Any]:
    """A call as the fields of an object."""
    fields: dict[str, Any] = {
        "id": call.id,
        "method": call.method,
        "path": call.path,
        "status": call.status,
        "seconds": round(call.seconds, 4),
    }
    if made is not None:
        fields["requests"], fields["tokens"] = made.numbers, made.tokens
        fields["sound_s"] = round(made.sound_s, 3)
        if made.first_s is not None:
            fields["first_output_s"] = round(made.first_s, 4)
        if made.failure is not None:
            fields["code"] = made.failure.code
    return fields


@lru_cache(maxsize=1)
def _utc(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


@lru_cache(maxsize=1)
def _clock(second: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(second))


def _now() -> str:
    """UTC, to the millisecond."""
    now = time.time()
    return f"{_utc(int(now))}.{int(now % 1 * 1000):03d}Z"


def _line(call: Call, made: _Made | None) -> str:
    """A call's line for people."""
    said = f"{call.method} {call.path} {call.status or '-'}, {call.seconds:.3f} s"
    if made is not None:
        if made.tokens:
            said += f", {made.tokens} tokens"
        if made.sound_s:
            said += f", {made.sound_s:.2f} s of sound"
        if made.first_s is not None:
            said += f", first after {made.first_s:.3f} s"
        if made.failure is not None:
            said += f", {made.failure.code}"
    return f"{_clock(int(time.time()))} {said}  {call.id}"

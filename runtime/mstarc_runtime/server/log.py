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
_KEPT_S = 0.02
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
        if call.status < 400 and (call.path in QUIET or call.path.startswith(PARTS)):
            return
        fields: dict[str, Any] = {
            "id": call.id,
            "method": call.method,
            "path": call.path,
            "status": call.status,
            "seconds": round(call.seconds, 4),
        }
        failed = call.status >= 500
        if call.requests:
            failed |= _made(call.requests, fields)
        if failed:
            text = f"{call.method} {call.path}" if self.as_json else _line(fields)
            self.say(text, "request", "warning", **fields)
        elif self._least == 0:
            self._call(call, fields)

    def _call(self, call: Call, fields: Mapping[str, Any]) -> None:
        """A call that went well: its line is written a little later, with others'."""
        if self.as_json:
            line = self._lined(f"{call.method} {call.path}", "request", "info", fields)
        else:
            line = _line(fields)
        if self._keep(line):
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


def _made(requests: Sequence["Followed"], fields: dict[str, Any]) -> bool:
    """Notes what a call's requests have made, and whether one has failed."""
    numbers, tokens, sound_s, first_s = [], 0, 0.0, None
    failure: RuntimeFailure | None = None
    for one in requests:
        live = one.live
        numbers.append(live.number)
        tokens += live.tokens
        sound_s += one.sound_s
        failure = failure or live.failure
        came_s = one.first_output_s
        if came_s is not None:
            first_s = came_s if first_s is None else min(first_s, came_s)
    fields["requests"], fields["tokens"], fields["sound_s"] = numbers, tokens, round(sound_s, 3)
    if first_s is not None:
        fields["first_output_s"] = round(first_s, 4)
    if failure is not None:
        fields["code"] = failure.code
    return failure is not None


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


def _line(fields: Mapping[str, Any]) -> str:
    """A call's line for people."""
    said = f"{fields['method']} {fields['path']} {fields['status'] or '-'}"
    said += f", {fields['seconds']:.3f} s"
    if fields.get("tokens"):
        said += f", {fields['tokens']} tokens"
    if fields.get("sound_s"):
        said += f", {fields['sound_s']:.2f} s of sound"
    if "first_output_s" in fields:
        said += f", first after {fields['first_output_s']:.3f} s"
    if "code" in fields:
        said += f", {fields['code']}"
    return f"{_clock(int(time.time()))} {said}  {fields['id']}"

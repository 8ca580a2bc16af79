"""What a server says on stderr: lines for people, or a JSON object a line.

Each thing that happens has an `event`, a level and fields; a line for people has their text. What
the HTTP library warns of goes the same way.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Literal

from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.server.calls import Call
from mstarc_runtime.weights.progress import Advance, Progress, progress_to

Level = Literal["info", "warning", "error"]
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

    def say(self, text: str, event: str = "server", level: Level = "info", **fields: Any) -> None:
        """One thing that happened. Where nobody can read it, the work goes on."""
        if LEVELS.index(level) < self._least:
            return
        if self.as_json:
            line = json.dumps(
                {"time": _now(), "level": level, "event": event, "message": text, **fields},
                ensure_ascii=False,
            )
        else:
            line = text
        with suppress(OSError, ValueError):
            print(line, file=self._stream or sys.stderr, flush=True)

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
        first = [f.first_output_s for f in call.requests if f.first_output_s is not None]
        failures = [f.live.failure for f in call.requests if f.live.failure is not None]
        if call.requests:
            fields["requests"] = [f.live.number for f in call.requests]
            fields["tokens"] = sum(f.live.tokens for f in call.requests)
            fields["sound_s"] = round(sum(f.sound_s for f in call.requests), 3)
        if first:
            fields["first_output_s"] = round(min(first), 4)
        if failures:
            fields["code"] = failures[0].code
        is_ours = call.status >= 500 or bool(failures)
        text = f"{call.method} {call.path}" if self.as_json else _line(fields)
        self.say(text, "request", "warning" if is_ours else "info", **fields)

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


def _now() -> str:
    """UTC, to the millisecond."""
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"


def _line(fields: dict[str, Any]) -> str:
    """A call's line for people."""
    parts = [f"{fields['method']} {fields['path']} {fields['status'] or '-'}"]
    parts.append(f"{fields['seconds']:.3f} s")
    if fields.get("tokens"):
        parts.append(f"{fields['tokens']} tokens")
    if fields.get("sound_s"):
        parts.append(f"{fields['sound_s']:.2f} s of sound")
    if "first_output_s" in fields:
        parts.append(f"first after {fields['first_output_s']:.3f} s")
    if "code" in fields:
        parts.append(fields["code"])
    return f"{time.strftime('%H:%M:%S')} {', '.join(parts)}  {fields['id']}"

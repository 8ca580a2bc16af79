"""Servers as processes of a benchmark: begun, waited for, asked, and ended with their children."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

READY_POLL_S = 0.25
READY_LIMIT_S = 1200.0
FIRST_LIMIT_S = 300.0
STOP_S = 20.0
FIRST_BYTES = 1024
"""More than a header: the first of the sound."""


@contextmanager
def server(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    ready_url: str,
    log: Path,
    limit_s: float = READY_LIMIT_S,
) -> Iterator[float]:
    """A server, ready: how many seconds that took. Afterwards it and its children are gone.

    Raises RuntimeError if it ends or is not ready in time, with the end of its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while not is_ready(ready_url):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended: {end_of(log)}")
            if time.monotonic() - begun > limit_s:
                raise RuntimeError(f"not ready after {limit_s:.0f} s: {end_of(log)}")
            time.sleep(READY_POLL_S)
        yield time.monotonic() - begun
    finally:
        end_group(process)


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    limit_s: float | None = None,
    given: bytes = b"",
    quiet: bool = False,
) -> int | None:
    """The exit status; none where it took too long. None of its processes is left."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL if quiet else None,
        start_new_session=True,
    )
    try:
        process.communicate(given, limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_group(process)
    return process.returncode


def end_on_signals() -> None:
    """Whoever ends this process ends what it has begun."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process that began a session, and its children, even where it has ended itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as response:
            return int(response.status) == 200
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def end_of(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def ask_for_speech(url: str, *, whole: bool) -> None:
    """One request, to its end or to its first sound. Raises OSError if it is not answered."""
    body = json.dumps({"input": "a word and another one", "stream": True}).encode()
    asked = urllib.request.Request(
        f"{url}/v1/audio/speech", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=FIRST_LIMIT_S) as answer:
        if not (answer.read() if whole else answer.read(FIRST_BYTES)):
            raise OSError("the answer is empty")

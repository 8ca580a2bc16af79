"""A server of a plan as a process of its own, and how a test asks it."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.golden import ROOT

HELLO = ("examples/hello_stream/hello_stream.mstar", "examples/hello_stream/sizes.yaml")
ASKED = {"messages": [{"role": "user", "content": "hello"}], "seed": 3, "max_tokens": 40}

_ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}", "OMP_NUM_THREADS": "1"}
_START_S = 120.0


class Server:
    """`mstarc serve` on a free port; `lines` has what it says.

    `path` is a folder in which it finds modules, `environment` is laid over this process's.
    """

    def __init__(
        self, plan: Path, *options: str, path: Path | None = None, **environment: str
    ) -> None:
        words = ("--port", "0", "--threads", "1", *options)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mstarc", "serve", str(plan), *words],
            env={**os.environ, **_environment(path), **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._is_silent = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        address = self.wait_for(r"listening on (http://[^\s\"]+)")
        self.http = httpx.Client(base_url=address, timeout=60)
        self.address = address

    def wait_for(self, pattern: str) -> str:
        """The first group of the pattern, as soon as a line of the server has it."""

        def found() -> str | None:
            matches = (re.search(pattern, line) for line in self.lines)
            match = next((match for match in matches if match), None)
            return None if match is None else match[1] if match.re.groups else match[0]

        with self._said:
            is_there = self._said.wait_for(lambda: found() is not None or self._is_silent, _START_S)
            text = found()
        assert is_there and text is not None, "".join(self.lines)
        return text

    def post(self, path: str, **content: Any) -> httpx.Response:
        return self.http.post(path, json=content)

    def held(self) -> dict[str, Any]:
        """What requests hold, once the server has no request any more."""
        deadline = time.monotonic() + 30
        while self.http.get("/ready").json()["requests"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        held: dict[str, Any] = self.http.get("/debug/held").json()
        return held

    def workers(self) -> list[int]:
        """Process ids of its ranks."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit status."""
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.close()
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.http.close()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()
        with self._said:
            self._is_silent = True
            self._said.notify_all()


def _environment(path: Path | None) -> dict[str, str]:
    if path is None:
        return _ENVIRONMENT
    return {**_ENVIRONMENT, "PYTHONPATH": f"{_ENVIRONMENT['PYTHONPATH']}:{path}"}


@contextmanager
def serving(
    plan: Path, *options: str, path: Path | None = None, **environment: str
) -> Iterator[Server]:
    """A server that is ready."""
    server = Server(plan, *options, path=path, **environment)
    try:
        server.wait_for("at most .* at once")
        yield server
    finally:
        server.close()


def compiled(
    folder: Path, spec: str, sizes: str, *placements: str, deployments: Mapping[str, str] = {}
) -> Path:
    """The plan of a shipped spec in its small sizes; deployments are texts by name."""
    words = [word for name in placements for word in ("--placement", name)]
    for name, text in deployments.items():
        (folder / f"{name}.yaml").write_text(text)
        words += ["--deployment", str(folder / f"{name}.yaml")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mstarc", "compile", str(ROOT / spec)),
            *("--sizes", str(ROOT / sizes), *words, "-o", str(folder / "plan")),
        ],
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "plan"


def events_of(lines: Iterator[str]) -> list[Any]:
    """The server-sent events of a stream, those of JSON read."""
    said = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(text) if text.startswith("{") else text for text in said]


def error(response: httpx.Response) -> dict[str, Any]:
    """What a refusal says."""
    found: dict[str, Any] = response.json()["error"]
    return found


def question() -> bytes:
    """A sound file."""
    return (ROOT / "examples" / "question.wav").read_bytes()


def input_audio() -> dict[str, Any]:
    """The part of a message that holds it."""
    data = base64.b64encode(question()).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}

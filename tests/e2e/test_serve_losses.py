"""Workers that are killed or stopped: requests end, the worker comes back, or the server ends."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.test_serve_limits import LONG, TWO_AT_ONCE, listening
from tests.support.footprint import footprint
from tests.support.serving import Server, compiled, error, events_of, serving

ORPHEUS = ("specs/orpheus.mstar", "specs/tiny/orpheus.yaml")
SHORT: dict[str, Any] = {"input": "hello", "max_tokens": 60, "seed": 1}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("two"), *ORPHEUS, deployments={"two": TWO_AT_ONCE})


@pytest.fixture(scope="module")
def server(plan: Path) -> Iterator[Server]:
    """One whose workers may be silent for two seconds."""
    with serving(plan, "--placement", "two", "--silence-timeout", "2") as server:
        yield server


def wait_until_ready(server: Server) -> dict[str, Any]:
    """What `/ready` says when it says yes."""
    deadline_s = time.monotonic() + 60
    while (said := server.http.get("/ready")).status_code != 200:
        assert time.monotonic() < deadline_s, said.text
        time.sleep(0.05)
    found: dict[str, Any] = said.json()
    return found


@pytest.mark.parametrize(
    ("rank", "number", "code"),
    # The last one first: a successor has a later process id than all others.
    [(1, signal.SIGKILL, "MS9301"), (0, signal.SIGSTOP, "MS9320")],
)
def test_a_lost_worker_fails_its_requests_and_comes_back(
    server: Server, rank: int, number: signal.Signals, code: str
) -> None:
    alone = server.post("/v1/audio/speech", **SHORT).content
    held, restarts = server.held(), wait_until_ready(server)["restarts"]
    before = footprint(server.process.pid)
    told_by = {**LONG, "stream_format": "sse"}
    with listening(server, told_by) as told, listening(server, LONG) as cut:
        lines, pieces = told.iter_lines(), cut.iter_raw()
        next(lines), next(pieces)
        os.kill(server.workers()[rank], number)
        lost_s = time.monotonic()
        events = events_of(lines)
        assert time.monotonic() - lost_s < (4.0 if number == signal.SIGSTOP else 2.0)
        assert events[-1]["error"]["code"] == code
        assert f"rank {rank}" in events[-1]["error"]["message"]
        assert "[DONE]" not in events
        # Nobody takes for whole what is not.
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    refused = server.post("/v1/audio/speech", **SHORT)
    assert (refused.status_code, error(refused)["code"]) == (503, code)
    assert int(refused.headers["retry-after"]) >= 1
    health = server.http.get("/health")
    assert (health.status_code, health.json()["state"]) == (503, "restarting")
    assert f"rank {rank}" in health.json()["error"]["message"]
    ready = server.http.get("/ready")
    assert ready.status_code == 503
    assert [worker["answers"] for worker in ready.json()["workers"]] == [rank == 1, rank == 0]
    assert server.http.get("/live").status_code == 200
    assert wait_until_ready(server)["restarts"] == restarts + 1
    assert server.http.get("/health").status_code == 200
    # The same bytes from the successor, and nothing is held that was not before.
    assert server.post("/v1/audio/speech", **SHORT).content == alone
    assert server.held() == held
    assert footprint(server.process.pid).is_as(before)


def test_a_server_that_has_lost_too_much_ends_with_status_2(plan: Path) -> None:
    with (
        serving(plan, "--placement", "two", "--restarts", "0") as server,
        listening(server, {**LONG, "stream_format": "sse"}) as told,
    ):
        lines = told.iter_lines()
        next(lines)
        os.kill(server.workers()[0], signal.SIGKILL)
        assert events_of(lines)[-1]["error"]["code"] == "MS9301"
        assert server.process.wait(20) == 2
        server.wait_for("MS9301")

"""What a server says of itself, without processes: calls, log lines, rates between two frames."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import httpx
import pytest
from rich.console import Console
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.calls import Call, Calls, current_call
from mstarc_runtime.server.log import Log
from mstarc_runtime.server.refusals import refusal
from mstarc_runtime.server.tracing import tracing_to
from mstarc_runtime.top.command import main as top
from mstarc_runtime.top.rates import rates_of
from mstarc_runtime.top.view import view
from mstarc_runtime.visits import Visits


def logged(log: Log) -> list[Any]:
    assert isinstance(log._stream, io.StringIO)
    return [json.loads(line) for line in log._stream.getvalue().splitlines()]


@pytest.fixture
def log() -> Log:
    return Log(as_json=True, stream=io.StringIO())


def asked(log: Log, path: str, **headers: str) -> httpx.Response:
    """A call of an application whose one route says its id, and whose other one fails."""

    async def named(_: Any) -> PlainTextResponse:
        call = current_call()
        assert call is not None
        return PlainTextResponse(call.id)

    async def fails(_: Any) -> PlainTextResponse:
        raise KeyError("ours")

    def crashed(call: Call, error: Exception) -> Any:
        log.crash(call, error)
        return refusal(RuntimeFailure("MS9315", "the server failed"))

    seen = Middleware(Calls, begun=lambda call: None, over=log.call, crashed=crashed)
    app = Starlette(routes=[Route("/named", named), Route("/fails", fails)], middleware=[seen])

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(path, headers=headers)

    answer = asyncio.run(ask())
    # Its line would be written a little later.
    log.write()
    return answer


def test_what_a_call_does_finds_it(log: Log) -> None:
    answer = asked(log, "/named", **{"x-request-id": "mine"})
    assert answer.text == answer.headers["x-request-id"] == "mine"
    assert current_call() is None
    (line,) = logged(log)
    assert (line["event"], line["id"], line["status"]) == ("request", "mine", 200)


def test_a_mistake_of_ours_has_a_code_and_its_trace_is_in_the_log(log: Log) -> None:
    answer = asked(log, "/fails", **{"x-request-id": "mine"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "MS9315"
    assert answer.headers["x-request-id"] == "mine"
    crash, call = logged(log)
    assert (crash["event"], crash["id"], call["level"]) == ("crashed", "mine", "warning")
    assert 'raise KeyError("ours")' in crash["traceback"]


def test_what_is_worth_a_line_is_chosen() -> None:
    log = Log(least="error", stream=io.StringIO())
    log.say("loading")
    log.failure(RuntimeFailure("MS9301", "a worker died", notes=["it was killed"]))
    assert isinstance(log._stream, io.StringIO)
    assert log._stream.getvalue().startswith("error[MS9301]: a worker died\n   = note: it was")


def test_a_failure_as_json_has_its_parts(log: Log) -> None:
    log.failure(RuntimeFailure("MS9301", "a worker died", notes=["it was killed"]), "lost")
    (line,) = logged(log)
    assert (line["event"], line["code"], line["notes"]) == ("lost", "MS9301", ["it was killed"])


def test_visits_add_up_by_step() -> None:
    visits = Visits()
    visits.add("say.speak", 10, 20)
    visits.add("say.speak", 30, 45)
    visits.enter("say.listen")
    (spoken, heard) = visits.all()
    assert spoken == ("say.speak", 2, 10, 45, 25)
    assert heard[:2] == ("say.listen", 1)


def frame(time_s: float, runs: int, *, tokens: int = 0, state: str = "ready") -> dict[str, Any]:
    """A server with one rank and one request."""
    cost = {"nodes": ["lm"], "is_host": False, "runs": runs, "requests": 2 * runs}
    cost |= {"host_us": 10 * runs, "job_us": 0}
    request = {"number": 7, "id": "r7", "route": "/generate", "state": "runs", "age_s": 1.0}
    return {
        "time_s": time_s,
        "model": "hello",
        "placement": "cpu",
        "state": state,
        "slots": 8,
        "queue": 64,
        "requests": [{**request, "tokens": tokens, "sound_s": 0.5, "first_output_s": None}],
        "workers": [
            {
                "process": 0,
                "rank": 0,
                "copy": 0,
                "device": "cpu",
                "answers": False,
                "steps": {"speak.write.pass": cost},
                "rows": {"speak.write.pass": {"runs": [7]}},
                "pages": {"lm": {"used": 3, "free": 5}},
            }
        ],
        "totals": dict.fromkeys(
            ("finished", "failed", "cancelled", "refused", "tokens", "sound_s", "underruns"), 0.0
        ),
    }


def test_rates_are_of_the_time_between() -> None:
    rates = rates_of(frame(10.0, 100, tokens=50), frame(12.0, 160, tokens=90))
    (step,) = rates.busiest
    assert (step.runs_per_s, step.requests_per_run, step.host_us) == (30.0, 2.0, 10.0)
    assert (rates.tokens_per_s, rates.sound_per_s) == (20.0, 0.0)


def test_a_worker_that_was_started_again_counts_from_nothing() -> None:
    (step,) = rates_of(frame(10.0, 100), frame(12.0, 6)).busiest
    assert step.runs_per_s == 3.0


def test_a_picture_has_no_need_of_colour() -> None:
    now = frame(12.0, 160)
    rates = rates_of(frame(10.0, 100), now)
    stream = io.StringIO()
    Console(file=stream, width=110, color_system=None).print(
        view(now, rates, address="http://here", most_steps=4, said="q quits")
    )
    text = stream.getvalue()
    assert "hello on cpu  ready  http://here" in text
    assert "####······ lm 3/8" in text
    assert "busy" in text  # in a long step, and well
    assert "/generate" in text and "speak.write.pass 1 runs" in text
    stream.truncate(0)
    now["state"] = "lost"
    Console(file=stream, width=110, color_system=None).print(
        view(now, rates, address="http://here", most_steps=4)
    )
    assert "silent" in stream.getvalue()


class Answers(BaseHTTPRequestHandler):
    """A collector of spans, something that is no server, or one that asks for a key."""

    collected: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.collected.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        wants_key = self.path == "/keys/debug/live"
        said = {"error": {"code": "MS9221", "message": "the request has no API key"}}
        self.send_response(401 if wants_key else 404)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode() if wants_key else b"nothing")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_top_says_what_is_not_as_it_should_be(
    elsewhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top([f"{elsewhere}/keys"]) == 2
    assert "error[MS9221]: the request has no API key" in (said := capsys.readouterr().err)
    assert "`--key`" in said
    assert top([elsewhere]) == 2
    assert "error[MS9014]: what answers at" in capsys.readouterr().err


def test_spans_go_to_a_collector_if_the_client_wants_them_kept(elsewhere: str) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    tracing = tracing_to(f"{elsewhere}/v1/traces", "hello")
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    for flag, is_kept in (("01", True), ("00", False)):
        headers = [(b"traceparent", f"00-{trace}-{span}-{flag}".encode())]
        call = Call(id=f"flag-{flag}", method="POST", path="/generate", raw_headers=headers)
        tracing.begun(call)
        assert tracing.wants(call) is is_kept
        call.status = 200
        tracing.over(call)
    tracing.close()
    sent = b"".join(Answers.collected)
    assert bytes.fromhex(trace) in sent
    assert b"flag-01" in sent and b"flag-00" not in sent

"""A server as a real process: what it refuses, clients that leave, its end."""

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from mstarc_runtime.server.open_files import allow_connections
from tests.support.bombs import silence
from tests.support.serving import ASKED, Server, compiled, error, input_audio, serving

ORPHEUS = ("specs/orpheus.mstar", "specs/tiny/orpheus.yaml")
TWO_AT_ONCE = """
model: orpheus
devices: 2xcpu
max_seq_len: 2048
max_concurrent_requests: 2
node_groups:
  - {node_names: [frontend, LLM], ranks: [0]}
  - {node_names: [snac_decoder], ranks: [1]}
"""
LONG = {"input": "hello", "max_tokens": 1500, "seed": 1}


@pytest.fixture(scope="module")
def two_at_once_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    return compiled(folder, *ORPHEUS, deployments={"two": TWO_AT_ONCE})


@pytest.fixture(scope="module")
def speaking(two_at_once_plan: Path) -> Iterator[Server]:
    """Orpheus on two ranks, two requests at once and one that waits."""
    with serving(two_at_once_plan, "--placement", "two", "--queue", "1") as server:
        yield server


BAD: list[tuple[str, Any, int, str, str]] = [
    ("/v1/chat/completions", b"{", 400, "MS9217", "not JSON"),
    ("/v1/chat/completions", b"\xff", 400, "MS9217", "UTF-8"),
    ("/v1/chat/completions", b'{"seed": NaN}', 400, "MS9217", "NaN"),
    ("/v1/chat/completions", b"[" * 100_000, 400, "MS9217", "too deeply"),
    ("/v1/chat/completions", {**ASKED, "max_tokenz": 3}, 400, "MS9217", "mean `max_tokens`"),
    ("/v1/chat/completions", {**ASKED, "max_tokens": 401}, 400, "MS9213", "0 .. 400"),
    ("/v1/chat/completions", {**ASKED, "max_tokens": "40"}, 400, "MS9213", "option of `int`"),
    ("/v1/chat/completions", {**ASKED, "model": "hallo_stream"}, 404, "MS9218", "hello_stream"),
    ("/v1/chat/completions", {**ASKED, "n": 9}, 400, "MS9217", "1 .. 8"),
    ("/v1/chat/completions", {"messages": []}, 400, "MS9217", "no `messages`"),
    ("/v1/chat/completions", {"messages": [3]}, 400, "MS9217", "message 0"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [input_audio()]}]},
        400,
        "MS9217",
        "takes no audio",
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}],
                }
            ]
        },
        400,
        "MS9217",
        "nothing is fetched",
    ),
    ("/v1/audio/speech", {"input": "hi", "response_format": "aac"}, 400, "MS9217", "`wav`"),
    ("/v1/audio/speech", {"input": "hi", "voice": "ada"}, 400, "MS9217", "one voice"),
    ("/v1/audio/speech", {}, 400, "MS9217", "no `input`"),
    ("/v1/audio/transcriptions", {}, 404, "MS9218", "`/v1/audio/speech`"),
    ("/generate", {"inputs": {"promt": "hi"}}, 400, "MS9217", "did you mean `prompt`"),
    ("/generate", {"inputs": {}}, 400, "MS9211", "no input `prompt`"),
    ("/generate", {"inputs": {"prompt": {"file": "/etc/passwd"}}}, 400, "MS9217", "a text"),
    ("/generate", {"inputs": {"prompt": "hi"}, "wants": ["sing"]}, 400, "MS9215", "`song`"),
    # Ranks are told numbers of 64 bits, and texts of whole letters.
    ("/v1/audio/speech", {"input": "hi", "seed": 2**63}, 400, "MS9213", "9223372036854775808"),
    ("/generate", {"inputs": {"prompt": "hi"}, "seed": -(2**70)}, 400, "MS9213", "`seed` is -118"),
    ("/v1/chat/completions", {**ASKED, "seed": 2**63 - 1, "n": 2}, 400, "MS9213", "`seed` is"),
    ("/v1/audio/speech", b'{"input": "hi \\ud800"}', 400, "MS9217", "half a character"),
    ("/generate", b'{"inputs": {"prompt": "\\udfff"}}', 400, "MS9217", "half a character"),
    (
        "/generate",
        {"inputs": {"prompt": "hi"}, "options": {"sed": 1}},
        400,
        "MS9212",
        "did you mean `seed`",
    ),
]


@pytest.mark.parametrize(("path", "content", "status", "code", "said"), BAD)
def test_what_can_not_be_done_is_said(
    hello: Server, path: str, content: Any, status: int, code: str, said: str
) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    refused = hello.http.post(path, content=raw)
    assert (refused.status_code, error(refused)["code"]) == (status, code)
    assert said in error(refused)["message"]


def test_an_unknown_path_is_told_the_nearest(hello: Server) -> None:
    refused = hello.post("/v1/chat/completion")
    assert refused.status_code == 404
    assert "`/v1/chat/completions`" in error(refused)["message"]
    assert hello.http.get("/generate").status_code == 405


def test_a_sound_that_is_none_is_refused(hearing: Server) -> None:
    refused = hearing.http.post("/v1/audio/transcriptions", files={"file": b"no sound"})
    assert (refused.status_code, error(refused)["code"]) == (400, "MS9202")
    refused = hearing.http.post("/v1/audio/transcriptions", data={"file": "../../etc/passwd"})
    assert refused.status_code == 400
    cut = hearing.http.post(
        "/v1/audio/transcriptions",
        content=b'--x\r\nContent-Disposition: form-data; name="file"',
        headers={"content-type": "multipart/form-data; boundary=x"},
    )
    assert cut.status_code == 400


def test_a_sound_that_unpacks_to_hours_is_refused(hearing: Server) -> None:
    before = hearing.held()
    refused = hearing.http.post("/v1/audio/transcriptions", files={"file": silence(7200)})
    assert (refused.status_code, error(refused)["code"]) == (413, "MS9219")
    assert hearing.held() == before


def test_a_full_queue_answers_429_and_what_leaves_makes_room(speaking: Server) -> None:
    before = speaking.held()
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(mute(speaking, LONG))
        refused = speaking.post("/v1/audio/speech", **LONG)
        assert (refused.status_code, error(refused)["code"]) == (429, "MS9310")
        assert int(refused.headers["retry-after"]) >= 1
        text = speaking.http.get("/metrics").text
        assert "mstarc_requests_running 2.0" in text
        assert "mstarc_requests_waiting 1.0" in text
    assert speaking.held() == before
    assert 'outcome="cancelled",route="/v1/audio/speech"} 3.0' in speaking.http.get("/metrics").text
    short = {"input": "hello", "max_tokens": 60, "seed": 1}
    assert speaking.post("/v1/audio/speech", **short).status_code == 200


def test_a_client_that_leaves_frees_what_its_request_holds(speaking: Server) -> None:
    before = speaking.held()
    short = {"input": "hello", "max_tokens": 60, "seed": 1}
    alone = speaking.post("/v1/audio/speech", **short).content
    for chunks in (0, 1, 3):
        with listening(speaking, LONG) as made:
            pieces = made.iter_raw()
            for _ in range(chunks):
                next(pieces)
            # A neighbour's bytes do not change.
            assert speaking.post("/v1/audio/speech", **short).content == alone
        assert speaking.held() == before
    # One that waits for a whole answer and leaves.
    with pytest.raises(httpx.ReadTimeout):
        speaking.http.post("/v1/audio/speech", json={**LONG, "stream": False}, timeout=0.5)
    assert speaking.held() == before
    assert speaking.http.get("/ready").status_code == 200


def test_clients_that_leave_at_random_points_leave_nothing(hello: Server) -> None:
    before = hello.held()
    asked = {"input": "hello", "seed": 3, "max_tokens": 60}
    alone = hello.post("/v1/audio/speech", **asked).content
    random = Random(5)

    async def leave(number: int) -> None:
        route, fields = random.choice(
            [
                ("/v1/audio/speech", {"input": "x" * random.randint(1, 30)}),
                ("/v1/chat/completions", {**ASKED, "modalities": ["text", "audio"]}),
                ("/v1/chat/completions", {**ASKED, "stream": True}),
            ]
        )
        content = {**fields, "seed": number, "max_tokens": 400}
        async with httpx.AsyncClient(base_url=hello.address, timeout=60) as http:
            with suppress(TimeoutError):
                await asyncio.wait_for(http.post(route, json=content), random.random() * 0.4)

    async def all_of_them() -> bytes:
        async with httpx.AsyncClient(base_url=hello.address, timeout=60) as http:
            neighbour = asyncio.create_task(http.post("/v1/audio/speech", json=asked))
            await asyncio.gather(*(leave(number) for number in range(30)))
            return (await neighbour).content

    assert asyncio.run(all_of_them()) == alone
    assert hello.held() == before


def test_a_body_that_is_too_large_is_not_read(hello: Server) -> None:
    refused = hello.post("/v1/audio/speech", input="a" * 1_100_000)
    assert refused.status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 100_000

    # Without a length in its head.
    refused = hello.http.post("/v1/audio/speech", content=pieces())
    assert refused.status_code == 413
    assert hello.post("/v1/audio/speech", input="hi", max_tokens=40).status_code == 200


def test_it_listens_while_weights_load_and_lets_requests_end_on_sigterm(
    two_at_once_plan: Path,
) -> None:
    server = Server(two_at_once_plan, "--placement", "two")
    asked = {"input": "hello", "max_tokens": 400, "seed": 1}
    try:
        refused = server.post("/v1/audio/speech", **asked)
        assert (refused.status_code, error(refused)["code"]) == (503, "MS9314")
        assert "retry-after" in refused.headers
        assert server.http.get("/health").status_code == 200
        assert server.http.get("/ready").status_code == 503
        server.wait_for("at most .* at once")
        assert server.http.get("/ready").status_code == 200
        whole = server.post("/v1/audio/speech", **asked).content
        workers = server.workers()
        with listening(server, asked) as made:
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("ending: 1 requests go on")
            assert b"".join(made.iter_raw()) == whole
        assert server.process.wait(60) == 0
        assert len(workers) == 2
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    finally:
        server.close()


def test_an_address_that_is_taken_is_said(two_at_once_plan: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(AssertionError, match="MS9312"):
            Server(two_at_once_plan, "--placement", "two", "--port", port)


def test_a_client_that_reads_nothing_slows_nobody(hello: Server) -> None:
    """Its connection is full, its answer waits; another one is answered meanwhile."""
    with mute(hello, {"input": "hello", "seed": 3, "max_tokens": 400}):
        assert hello.post("/v1/chat/completions", **ASKED).status_code == 200
    assert hello.held()["conductor"]["requests"] == 0


def test_a_crowd_that_says_nothing_slows_nobody(hello: Server) -> None:
    """More connections than files that a process has without asking for more."""
    host, port = hello.address.removeprefix("http://").split(":")
    count = min(1200, allow_connections() - 200)
    with ExitStack() as crowd:
        for _ in range(count):
            crowd.enter_context(socket.create_connection((host, int(port))))
        assert hello.post("/v1/chat/completions", **ASKED).status_code == 200
        assert hello.http.get("/ready").status_code == 200


@contextmanager
def listening(server: Server, asked: dict[str, Any]) -> Iterator[httpx.Response]:
    """An answer that has begun, to a client of its own: at the end it leaves."""
    with httpx.Client(base_url=server.address, timeout=60) as http:
        request = http.build_request("POST", "/v1/audio/speech", json=asked)
        answer = http.send(request, stream=True)
        try:
            yield answer
        finally:
            answer.close()


@contextmanager
def mute(server: Server, asked: dict[str, Any]) -> Iterator[None]:
    """A client that asks and reads nothing; its request has been taken. At the end it leaves."""
    taken = server.http.get("/ready").json()["requests"]
    host, port = server.address.removeprefix("http://").split(":")
    body = json.dumps(asked).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        while server.http.get("/ready").json()["requests"] <= taken:
            time.sleep(0.01)
        yield

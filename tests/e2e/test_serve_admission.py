"""Who is let in, in which order, and for how long, at a server as a real process."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.serving import Server, compiled, error, serving

ORPHEUS = ("specs/orpheus.mstar", "specs/tiny/orpheus.yaml")
ONE_AT_ONCE = """
model: orpheus
devices: cpu
max_seq_len: 2048
max_concurrent_requests: 1
node_groups:
  - {node_names: [frontend, LLM, snac_decoder], ranks: [0]}
"""
KEYS = """
[web]
key = "sk-web-12345"
queue = 2

[batch]
key = "sk-batch-12345"
"""
SPEECH = "/v1/audio/speech"
LONG = {"input": "hello", "max_tokens": 1500, "seed": 1}
SHORT = {"input": "hello", "max_tokens": 40, "seed": 1}


def of(client: str, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer sk-{client}-12345", **more}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Orpheus for clients with keys, one request at a time."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys.toml").write_text(KEYS)
    plan = compiled(folder, *ORPHEUS, deployments={"one": ONE_AT_ONCE})
    with serving(plan, "--placement", "one", "--api-keys", str(folder / "keys.toml")) as server:
        server.http.headers.update(of("web"))
        yield server


def test_without_a_key_only_health_is_told(guarded: Server) -> None:
    def status(path: str, key: str = "") -> int:
        return httpx.get(guarded.address + path, headers={"authorization": key}).status_code

    for path in ("/health", "/ready", "/docs", "/openapi.json"):
        assert status(path) == 200
    for path in ("/metrics", "/v1/models", "/debug/held"):
        assert status(path) == 401
        assert status(path, "Bearer sk-web-1234") == 401
        assert status(path, "Bearer sk-batch-12345") == 200
    refused = httpx.post(guarded.address + SPEECH, json=SHORT)
    assert (refused.status_code, error(refused)["code"]) == (401, "MS9221")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert error(refused)["type"] == "authentication_error"


def test_a_websocket_needs_a_key_too(guarded: Server) -> None:
    websockets = pytest.importorskip("websockets")
    from websockets.sync.client import connect

    address = guarded.address.replace("http", "ws") + "/v1/realtime"

    def status(**given: Any) -> int:
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            connect(address, **given)
        return int(refused.value.response.status_code)

    assert status() == 401
    # Let in, and told that this model hears nothing.
    assert status(additional_headers=of("web")) == 404
    offered = ["realtime", "openai-insecure-api-key.sk-web-12345"]
    assert status(subprotocols=offered) == 404


async def until_taken(http: httpx.AsyncClient, count: int) -> None:
    while (await http.get("/ready")).json()["requests"] < count:
        await asyncio.sleep(0.01)


def test_a_client_that_fills_its_queue_leaves_others_their_turns(guarded: Server) -> None:
    before = guarded.held()

    async def ask() -> tuple[list[str], int]:
        over: list[str] = []
        async with httpx.AsyncClient(base_url=guarded.address, timeout=60) as http:

            async def speak(name: str, client: str, **more: str) -> int:
                made = await http.post(SPEECH, json=SHORT, headers=of(client, **more))
                over.append(name)
                return made.status_code

            async with http.stream("POST", SPEECH, json=LONG, headers=of("web")) as held:
                asked = []
                for place, (name, client, priority) in enumerate(
                    (
                        ("web low", "web", "low"),
                        ("web high", "web", "high"),
                        ("batch 1", "batch", "normal"),
                        ("batch 2", "batch", "normal"),
                    )
                ):
                    more = {"x-mstarc-priority": priority}
                    asked.append(asyncio.create_task(speak(name, client, **more)))
                    await until_taken(http, place + 2)
                # The queue of `web` is full, that of `batch` is not.
                refused = await http.post(SPEECH, json=SHORT, headers=of("web"))
                await held.aclose()
            assert set(await asyncio.gather(*asked)) == {200}
            return over, refused.status_code

    order, refused = asyncio.run(ask())
    assert refused == 429
    # `web` has had its turn; of its own the urgent one is first.
    assert order == ["batch 1", "web high", "batch 2", "web low"]
    assert guarded.held() == before


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_is_late_ends_with_its_code(guarded: Server, stream: bool) -> None:
    before = guarded.held()
    late = {"x-mstarc-deadline": "0.4"}
    asked = {**LONG, "stream": stream, "stream_format": "sse" if stream else "audio"}
    made = guarded.http.post(SPEECH, json=asked, headers=late)
    if made.status_code == 200:
        # It had begun to speak.
        assert stream
        assert '"code":"MS9222"' in made.text and "speech.audio.done" not in made.text
    else:
        assert (made.status_code, error(made)["code"]) == (408, "MS9222")
    assert guarded.held() == before
    assert guarded.http.post(SPEECH, json=SHORT).status_code == 200
    said = guarded.http.post(SPEECH, json={**LONG, "stream": False, "deadline": 0.3})
    assert (said.status_code, error(said)["code"]) == (408, "MS9222")
    refused = guarded.http.post(SPEECH, json=SHORT, headers={"x-mstarc-deadline": "soon"})
    assert (refused.status_code, error(refused)["code"]) == (400, "MS9217")


def test_a_request_that_waits_too_long_ends_without_having_run(guarded: Server) -> None:
    before = guarded.held()
    with guarded.http.stream("POST", SPEECH, json=LONG):
        late = {"x-mstarc-deadline": "0.3"}
        made = guarded.http.post(SPEECH, json=SHORT, headers=late)
        assert (made.status_code, error(made)["code"]) == (408, "MS9222")
    assert guarded.held() == before

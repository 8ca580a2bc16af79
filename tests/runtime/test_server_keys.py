"""API keys and how requests stand, without a server."""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.calls import Calls
from mstarc_runtime.server.keys import Client, Keys, read_keys
from mstarc_runtime.server.turns import (
    Turns,
    current_standing,
    is_open,
    read_fields,
    read_standing,
)
from mstarc_runtime.settings import read_settings

FILE = f"""
[web]
key = "sk-web-12345"
weight = 3
queue = 2

[batch]
sha256 = "{hashlib.sha256(b"sk-batch-12345").hexdigest()}"
"""


def connection(kind: str = "http", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    protocols = headers.get("sec_websocket_protocol", "").split(", ")
    return HTTPConnection({"type": kind, "headers": raw, "subprotocols": protocols})


def keys_of(folder: Path, text: str = FILE) -> Keys:
    path = folder / "keys.toml"
    path.write_text(text)
    return read_keys(path, None)


def code(failing: pytest.ExceptionInfo[RuntimeFailure]) -> str:
    return failing.value.code


def test_a_key_says_who_asks(tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    assert keys.client("sk-web-12345") == Client(name="web", weight=3, queue=2)
    assert keys.client("sk-batch-12345") == Client(name="batch")
    for unknown in (None, "", "sk-web-1234", "sk-web-123456"):
        with pytest.raises(RuntimeFailure) as failing:
            keys.client(unknown)
        assert code(failing) == "MS9221"
    assert "sk-web" not in repr(keys)


def test_without_keys_everybody_is_one_client() -> None:
    keys = read_keys(None, None)
    assert not keys.are_needed
    assert keys.client(None) == keys.client("anything") == Client()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[web", "not TOML"),
        ("", "no client"),
        ("web = 1", "outside of a table"),
        ("[web]", "not one of `key` and `sha256`"),
        ('[web]\nkey = "short"', "`key` that is none"),
        ('[web]\nsha256 = "00"', "1 bytes"),
        ('[web]\nsha256 = "xy"', "not hexadecimal"),
        ('[web]\nkey = "sk-web-12345"\nweight = 0', "1 .. 100"),
        ('[web]\nkey = "sk-web-12345"\nweigth = 1', "`weigth`"),
        ('[a]\nkey = "sk-web-12345"\n[b]\nkey = "sk-web-12345"', "the same key"),
    ],
)
def test_a_file_that_is_wrong_is_refused_without_its_secrets(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(RuntimeFailure) as failing:
        keys_of(tmp_path, text)
    assert code(failing) == "MS9017"
    assert said in str(failing.value) and "sk-web" not in str(failing.value)


def test_the_environment_has_one_key() -> None:
    keys = read_keys(None, read_settings({"MSTARC_API_KEY": "sk-alone-1"}).api_key)
    assert keys.client("sk-alone-1").name == "default"
    with pytest.raises(RuntimeFailure) as failing:
        read_settings({"MSTARC_API_KEY": "secret"})
    assert code(failing) == "MS9001" and "secret" not in str(failing.value)


def test_a_request_says_how_it_stands(tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    bearer = {"authorization": "Bearer sk-web-12345"}
    said = connection(**bearer, x_mstarc_priority="high", x_mstarc_deadline="2.5")
    standing = read_standing(said, keys)
    turn = standing.turn(64)
    assert (turn.key, turn.weight, turn.priority, turn.most_waiting) == ("web", 3, 1, 2)
    due_s = standing.due_s(60.0)
    assert due_s is not None and 0 < due_s - time.monotonic() <= 2.5
    assert read_standing(connection(**bearer), keys).due_s(None) is None
    offered = {"sec_websocket_protocol": "realtime, openai-insecure-api-key.sk-batch-12345"}
    assert read_standing(connection("websocket", **offered), keys).client.name == "batch"


@pytest.mark.parametrize(
    "headers",
    [
        {"x_mstarc_priority": "urgent"},
        {"x_mstarc_deadline": "soon"},
        {"x_mstarc_deadline": "0"},
        {"x_mstarc_deadline": "nan"},
        {"x_mstarc_deadline": "1e9"},
    ],
)
def test_a_head_that_is_wrong_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(RuntimeFailure) as failing:
        read_standing(connection(**headers), Keys())
    assert code(failing) == "MS9217"


def standing_of(body: Mapping[str, Any], options: Sequence[str] = (), **headers: str) -> Any:
    """What an application makes of a body and a head: priority and deadline, or a code."""

    async def stands(request: Request) -> Response:
        try:
            read_fields(await request.json(), options)
        except RuntimeFailure as failure:
            return JSONResponse(failure.code)
        standing = current_standing()
        return JSONResponse([standing.priority, standing.deadline_s])

    def told(_: object) -> None: ...

    def crashed(_: object, error: Exception) -> Response:
        raise error

    app = Starlette(
        routes=[Route("/generate", stands, methods=["POST"])],
        middleware=[
            Middleware(Calls, begun=told, over=told, crashed=crashed),
            Middleware(Turns, keys=Keys()),
        ],
    )

    async def ask() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return (await client.post("/generate", json=body, headers=headers)).json()

    return asyncio.run(ask())


def test_a_body_says_how_it_stands_and_counts_more_than_its_head() -> None:
    assert standing_of({}) == [0, None]
    assert standing_of({"priority": "high", "deadline": 2}) == [1, 2.0]
    head = {"x-mstarc-priority": "low", "x-mstarc-deadline": "5"}
    assert standing_of({}, **head) == [-1, 5.0]
    assert standing_of({"priority": "normal"}, **head) == [0, 5.0]
    assert standing_of({"deadline": 0.5}, **head) == [-1, 0.5]
    assert standing_of({"priority": None, "deadline": None}, **head) == [-1, 5.0]
    # The spec's own option of that name is no word of ours.
    assert standing_of({"priority": 7}, ["priority"]) == [0, None]


@pytest.mark.parametrize(
    "body",
    [
        {"priority": "urgent"},
        {"priority": 1},
        *({"deadline": it} for it in (0, -1, 1e9, "2", True)),
    ],
)
def test_a_body_that_is_wrong_about_it_is_refused(body: dict[str, Any]) -> None:
    assert standing_of(body) == "MS9217"


def test_what_is_told_without_a_key() -> None:
    assert is_open("/health") and is_open("/page/talk.js")
    for path in ("/metrics", "/debug/held", "/v1/models", "/v1/realtime", "/generate", "/healthz"):
        assert not is_open(path)

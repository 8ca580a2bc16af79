"""Who a request is from, how soon it wants its answer, and how it stands among others that wait.

A middleware reads the key, `X-Mstarc-Priority` (low, normal, high) and `X-Mstarc-Deadline` (seconds
from its coming) from the head of every request, and refuses those without a key that is known. A
body of JSON may say `priority` and `deadline` too, and then that counts. What is submitted for a
request finds its `Standing` at its call.
"""

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server import body as fields
from mstarc_runtime.server.calls import WEBSOCKET, current_call
from mstarc_runtime.server.keys import Client, Keys
from mstarc_runtime.server.refusals import refusal, refuse_socket
from mstarc_schedule.fairness import Turn

PRIORITY: Final = "x-mstarc-priority"
DEADLINE: Final = "x-mstarc-deadline"
PRIORITIES: Final = {"low": -1, "normal": 0, "high": 1}
# What is told without a key: whether the server does, what can be asked, and the page.
_OPEN: Final = frozenset(
    ("/", "/health", "/ready", "/live", "/docs", "/openapi.json", "/favicon.ico")
)
_OPEN_BELOW: Final = ("/page/",)
# Browsers can't set headers of a WebSocket; OpenAI's clients offer the key as a protocol then.
_PROTOCOL_KEY: Final = "openai-insecure-api-key."
MOST_S: Final = 86_400.0
# In a body of JSON, unless the spec has an option of that name.
FIELDS: Final = ("priority", "deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of a request: seconds that it has from its coming, if it says so."""

    client: Client = field(default_factory=Client)
    priority: int = 0
    deadline_s: float | None = None

    def turn(self, queue: int) -> Turn:
        """How it waits; `queue` is what may wait of a client that says nothing else."""
        client = self.client
        most = queue if client.queue is None else client.queue
        return Turn(
            key=client.name, weight=client.weight, priority=self.priority, most_waiting=most
        )

    def due_s(self, usual_s: float | None) -> float | None:
        """When what asks now must be answered, by the monotonic clock.

        A connection may ask several times: each begins when it is asked.
        """
        allowed = usual_s if self.deadline_s is None else self.deadline_s
        if allowed is None:
            return None
        call = current_call()
        asks_once = call is not None and call.method != WEBSOCKET
        return (call.began_ns / 1e9 if call and asks_once else time.monotonic()) + allowed


USUAL: Final = Standing()
"""That of a request which says nothing, where everybody is one client."""


def current_standing() -> Standing:
    """That of the request that is being answered."""
    call = current_call()
    return USUAL if call is None or call.standing is None else call.standing


class Turns:
    """Lets those in whose key is known, and notes how they stand."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        call = current_call()
        assert call is not None, "calls stand around turns"
        if not self._keys.are_needed and not call.says_more:
            # As most requests are: as if they had been read.
            call.standing = USUAL
            await self._app(scope, receive, send)
            return
        try:
            standing = read_standing(HTTPConnection(scope), self._keys)
        except RuntimeFailure as failure:
            answer = refusal(failure)
            if failure.code == "MS9221":
                answer.headers["www-authenticate"] = "Bearer"
            if scope["type"] == "http":
                await answer(scope, receive, send)
            else:
                await refuse_socket(WebSocket(scope, receive, send), answer)
            return
        call.standing = standing
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    """Whether it is told without a key."""
    return path in _OPEN or path.startswith(_OPEN_BELOW)


def read_standing(connection: HTTPConnection, keys: Keys) -> Standing:
    """What the head of a request says. Fails with MS9217 or MS9221."""
    client = keys.client(_key(connection))
    said = connection.headers.get(PRIORITY, "normal")
    priority = fields.choice({PRIORITY: said}, PRIORITY, tuple(PRIORITIES), "normal")
    return Standing(
        client=client,
        priority=PRIORITIES[priority],
        deadline_s=_deadline(connection.headers.get(DEADLINE)),
    )


def _key(connection: HTTPConnection) -> str | None:
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    for protocol in connection.scope.get("subprotocols", ()):
        if protocol.startswith(_PROTOCOL_KEY):
            return str(protocol.removeprefix(_PROTOCOL_KEY))
    return None


def _deadline(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    return _seconds(seconds, DEADLINE, f"`{text}`")


def _seconds(seconds: float, name: str, shown: str) -> float:
    """Fails with MS9217 if nobody can be given so long."""
    if not 0 < seconds <= MOST_S:
        raise fields.wrong(f"`{name}` can't be {shown}", f"it is seconds, up to {MOST_S:.0f}")
    return seconds


def read_fields(body: Mapping[str, Any], options: Collection[str]) -> None:
    """What a body says of how its request stands, which then counts. Fails with MS9217.

    A field that has the name of one of `options` is that option.
    """
    said = {name: body[name] for name in FIELDS if name in body and name not in options}
    if not said:
        return
    call = current_call()
    assert call is not None, "a body belongs to a call"
    standing = current_standing()
    usual = next(word for word, rank in PRIORITIES.items() if rank == standing.priority)
    priority = fields.choice(said, "priority", tuple(PRIORITIES), usual)
    deadline_s = fields.field(said, "deadline", "number")
    if deadline_s is not None:
        deadline_s = _seconds(deadline_s, "deadline", fields.shown(deadline_s))
    call.standing = replace(
        standing,
        priority=PRIORITIES[priority],
        deadline_s=standing.deadline_s if deadline_s is None else float(deadline_s),
    )

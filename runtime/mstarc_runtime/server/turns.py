"""Who a request is from, how soon it wants its answer, and how it stands among others that wait.

A middleware reads the key, `X-Mstarc-Priority` (low, normal, high) and `X-Mstarc-Deadline` (seconds
from its coming) from the head of every request, and refuses those without a key that is known. What
is submitted for a request finds its `Standing` through a context variable, as asyncio keeps one a
task.
"""

import math
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server import body as fields
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
_MOST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of a request. It came at `came_s` of the monotonic clock; of a connection that asks several
    times that is None, and each begins when it is asked."""

    client: Client = field(default_factory=Client)
    priority: int = 0
    deadline_s: float | None = None
    came_s: float | None = None

    def turn(self, queue: int) -> Turn:
        """How it waits; `queue` is what may wait of a client that says nothing else."""
        client = self.client
        most = queue if client.queue is None else client.queue
        return Turn(
            key=client.name, weight=client.weight, priority=self.priority, most_waiting=most
        )

    def due_s(self, usual_s: float | None) -> float | None:
        """When it must be answered, by the monotonic clock."""
        allowed = usual_s if self.deadline_s is None else self.deadline_s
        if allowed is None:
            return None
        return (time.monotonic() if self.came_s is None else self.came_s) + allowed


_STANDING: ContextVar[Standing | None] = ContextVar("standing", default=None)


def current_standing() -> Standing:
    """That of the request that is being answered."""
    return _STANDING.get() or Standing()


class Turns:
    """Lets those in whose key is known, and notes how they stand."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        if not self._keys.are_needed and not _says_something(scope):
            # As most requests are: as if they had been read.
            token = _STANDING.set(Standing(came_s=_came_s(scope)))
            try:
                await self._app(scope, receive, send)
            finally:
                _STANDING.reset(token)
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
        token = _STANDING.set(standing)
        try:
            await self._app(scope, receive, send)
        finally:
            _STANDING.reset(token)


def _says_something(scope: Scope) -> bool:
    return any(name.startswith(b"x-mstarc-") for name, _ in scope["headers"])


def _came_s(scope: Scope) -> float | None:
    return None if scope["type"] == "websocket" else time.monotonic()


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
        came_s=_came_s(connection.scope),
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
    if not 0 < seconds <= _MOST_S:
        raise fields.wrong(f"`{DEADLINE}` can't be `{text}`", f"it is seconds, up to {_MOST_S:.0f}")
    return seconds

"""One HTTP call: its id, which client and log know it by, and what becomes of it.

`X-Request-Id` is the client's where it is a plain word, else made here; every answer carries it.
What a call submits finds it through a context variable, of which asyncio keeps one a task.
"""

import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from mstarc_runtime.server.followed import Followed
    from mstarc_runtime.server.turns import Standing

HEADER: Final = "x-request-id"
_HEADER: Final = HEADER.encode()
# How the names of headers begin that this server has for itself.
OURS: Final = b"x-mstarc-"
# What stands for the method of a call that is one.
WEBSOCKET: Final = "WEBSOCKET"
_WORD = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """What a client has asked. `status` is 0 before the answer begins; WebSockets have none."""

    id: str
    method: str
    path: str
    raw_headers: Iterable[tuple[bytes, bytes]]
    began_ns: int = field(default_factory=time.monotonic_ns)
    status: int = 0
    # Of the body, as the head says; whether the head has words of ours.
    length_bytes: int = 0
    says_more: bool = False
    # Who asks, and how what it submits waits.
    standing: "Standing | None" = None
    # What it has submitted, and its span where calls are traced.
    requests: list["Followed"] = field(default_factory=list)
    span: Any = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The last of each name, in small letters."""
        return {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in self.raw_headers
        }

    @property
    def seconds(self) -> float:
        return (time.monotonic_ns() - self.began_ns) / 1e9


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


def current_call() -> Call | None:
    """The call that is being answered; None outside of one."""
    return _CALL.get()


class Calls:
    """Names each call, says when it begins and when it is over, and answers when all fails."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        begun: Callable[[Call], None],
        over: Callable[[Call], None],
        crashed: Callable[[Call, Exception], Response],
    ) -> None:
        self._app = app
        self._begun = begun
        self._over = over
        self._crashed = crashed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        call = _call_of(scope)

        async def named(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                call.status = message.get("status", 101)
                message["headers"] = [*message.get("headers", ()), (_HEADER, call.id.encode())]
            await send(message)

        token = _CALL.set(call)
        self._begun(call)
        try:
            await self._app(scope, receive, named)
        except Exception as error:
            answer = self._crashed(call, error)
            if call.status or scope["type"] != "http":
                raise
            await answer(scope, receive, named)
        finally:
            _CALL.reset(token)
            self._over(call)
            # They know it too, and what knows one another waits for the collector.
            call.requests.clear()


def _call_of(scope: MutableMapping[str, Any]) -> Call:
    given = length = ""
    says_more = False
    for name, value in scope["headers"]:
        if name == _HEADER:
            given = value.decode("latin-1")
        elif name == b"content-length":
            length = value.decode("latin-1")
        elif name.startswith(OURS):
            says_more = True
    return Call(
        id=given if given and _WORD.fullmatch(given) else f"{random.getrandbits(128):032x}",
        method=scope.get("method", WEBSOCKET),
        path=scope["path"],
        raw_headers=scope["headers"],
        length_bytes=int(length) if length.isdecimal() else 0,
        says_more=says_more,
    )

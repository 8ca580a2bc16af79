"""Answers that are sent while they are made, and what happens when their client leaves.

A failure before the first piece is an ordinary refusal. After it, a stream of events tells the
failure as its last event, without `[DONE]`; a stream of bytes is cut off, so that no client takes
it for whole.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.connections import connection_of
from mstarc_runtime.server.refusals import error_of

DONE = b"data: [DONE]\n\n"
EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy would keep events together
}


Pieces = AsyncGenerator[bytes, None]
End = Callable[[], None]
Made = TypeVar("Made")


encode = msgspec.json.Encoder().encode


class Json(Response):
    """A whole answer of JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


def event(content: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + encode(content) + b"\n\n"


async def gone(receive: Receive) -> None:
    """Returns when the client has left. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, made: Coroutine[Any, Any, Made], end: End) -> Made:
    """What is made; `end` is called if that fails. Raises ClientLeft if nobody waits for it."""
    # Made in this task, which is cancelled if the client leaves: tasks are most of what a small
    # answer costs.
    this = asyncio.current_task()
    assert this is not None
    connection = connection_of(request.scope) or _Elsewhere(request.receive)
    connection.ends_with_client(this)
    try:
        return await made
    except asyncio.CancelledError as error:
        end()
        if connection.has_left and not this.uncancel():
            raise ClientLeft from error
        raise
    except BaseException:
        end()
        raise
    finally:
        connection.ends_with_client(None)


class _Elsewhere:
    """The connection of a request that another server has taken."""

    def __init__(self, receive: Receive) -> None:
        self.has_left = False
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None

    def ends_with_client(self, task: "asyncio.Task[Any] | None") -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._watching = None if task is None else asyncio.ensure_future(self._watch(task))

    async def _watch(self, task: "asyncio.Task[Any]") -> None:
        await gone(self._receive)
        self.has_left = True
        task.cancel()


class Stream(Response):
    """Pieces that are sent as they come: `first` has been made, `rest` goes on after it.

    `end` is called when no more is sent, for whatever reason. `on_failure` makes the last piece of
    a failure; without it the answer is cut off.
    """

    def __init__(
        self,
        first: bytes,
        rest: Pieces,
        headers: Mapping[str, str],
        *,
        end: End,
        on_failure: Callable[[RuntimeFailure], bytes] | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self._first = first
        self._rest = rest
        self._end = end
        self._on_failure = on_failure
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientLeft):
                await unless_gone(Request(scope, receive), self._send(send), self._end)
        finally:
            self._end()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self._rest) as rest:
            try:
                await send(_part(self._first))
                async for piece in rest:
                    await send(_part(piece))
            except RuntimeFailure as failure:
                if self._on_failure is None:
                    return  # not complete, and so the connection is closed
                await send(_part(self._on_failure(failure)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def streamed(
    request: Request,
    pieces: Pieces,
    headers: Mapping[str, str],
    *,
    end: End,
    on_failure: Callable[[RuntimeFailure], bytes] | None = None,
) -> Response:
    """A stream whose first piece there is: until then a failure is a refusal with its status."""

    async def begin() -> Response:
        first = await anext(pieces, b"")
        return Stream(first, pieces, headers, end=end, on_failure=on_failure)

    return await unless_gone(request, begin(), end)


async def streamed_events(request: Request, pieces: Pieces, *, end: End) -> Response:
    """A stream of server-sent events. `pieces` ends with what says that all is whole."""

    def failed(failure: RuntimeFailure) -> bytes:
        return event({"error": error_of(failure)})

    return await streamed(request, pieces, EVENTS, end=end, on_failure=failed)


def _part(piece: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": True}

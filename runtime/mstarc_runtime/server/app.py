"""The routes, and what stands around them: limits of bodies, failures as answers.

`app_of` gives an ASGI application. Each route is a function of (request, service) that raises
`RuntimeFailure`; here it becomes a status and JSON, and is counted.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from mstarc_runtime.errors import RuntimeFailure, did_you_mean
from mstarc_runtime.server import (
    chat,
    facts,
    generate,
    images,
    page,
    speech,
    transcriptions,
    watching,
)
from mstarc_runtime.server.body import wrong
from mstarc_runtime.server.calls import Call, Calls, current_call
from mstarc_runtime.server.connections import connection_of, too_slow
from mstarc_runtime.server.keys import Keys
from mstarc_runtime.server.realtime.answer import ROUTE as REALTIME
from mstarc_runtime.server.realtime.connection import no_socket, realtime
from mstarc_runtime.server.refusals import refusal
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.streaming import ClientLeft
from mstarc_runtime.server.turns import Turns

Answer = Callable[[Request, Service], Awaitable[Response]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]
_CLIENT_LEFT = 499

POSTS: tuple[tuple[str, Answer], ...] = (
    (generate.ROUTE, generate.generate),
    (chat.ROUTE, chat.chat),
    (speech.ROUTE, speech.speech),
    (transcriptions.ROUTE, transcriptions.transcribe),
    (images.GENERATIONS, images.generate),
    (images.EDITS, images.edit),
)
GETS: tuple[tuple[str, Answer], ...] = (
    ("/", page.index),
    ("/page/{name}", page.part),
    ("/v1/models", facts.models),
    ("/v1/models/{name}", facts.one_model),
    ("/live", facts.live),
    ("/health", facts.health),
    ("/ready", facts.ready),
    ("/metrics", facts.metrics),
    ("/debug/held", facts.held),
    (watching.ROUTE, watching.live),
    (REALTIME, no_socket),
    ("/openapi.json", facts.api),
    ("/docs", facts.api_page),
)


class BodyTooLarge(Exception):
    """More bytes came than a body may have."""


class Endpoint:
    """A route: what comes → `answer` → what is sent. Whatever it fails with is answered around it.

    No more of a body is let in than there may be, whatever its head says.
    """

    def __init__(self, answer: Answer, service: Service) -> None:
        self._answer = answer
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        most_bytes = self._service.limits.body_bytes
        call, connection = current_call(), connection_of(scope)
        if call is not None and call.length_bytes > most_bytes:
            raise BodyTooLarge
        came = 0

        async def limited() -> Message:
            nonlocal came
            message = await receive()
            if message["type"] == "http.request":
                if connection is not None and connection.is_slow:
                    raise too_slow(connection.patience)
                came += len(message.get("body", b""))
                if came > most_bytes:
                    raise BodyTooLarge
            return message

        answer = await self._answer(Request(scope, limited), self._service)
        await answer(scope, limited, send)


def app_of(service: Service, keys: Keys, lifespan: Lifespan) -> Starlette:
    """The application that serves a plan."""

    async def live(socket: WebSocket) -> None:
        await realtime(socket, service)

    async def failed(_: Request, failure: Exception) -> Response:
        assert isinstance(failure, RuntimeFailure)
        service.metrics.refusals.labels(failure.code).inc()
        return refusal(failure, retry_after_s=service.retry_after_s)

    async def too_large(_: Request, __: Exception) -> Response:
        most = service.limits.body_bytes
        service.metrics.refusals.labels("MS9217").inc()
        said = wrong(f"the body has more than {most / 1e6:.0f} MB", "`--max-body-mb` says how much")
        return refusal(said, status=413)

    async def left(_: Request, __: Exception) -> Response:
        return Response(status_code=_CLIENT_LEFT)

    def over(call: Call) -> None:
        service.tracing.over(call)
        service.log.call(call)

    def crashed(call: Call, error: Exception) -> Response:
        said = _crashed(error)
        service.metrics.refusals.labels(said.code).inc()
        service.log.crash(call, error)
        return refusal(said)

    async def not_there(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": _no_route(request, error)}, error.status_code, error.headers)

    return Starlette(
        routes=[
            *(Route(path, Endpoint(answer, service), methods=["POST"]) for path, answer in POSTS),
            *(Route(path, Endpoint(answer, service), methods=["GET"]) for path, answer in GETS),
            WebSocketRoute(REALTIME, live),
        ],
        middleware=[
            Middleware(Calls, begun=service.tracing.begun, over=over, crashed=crashed),
            Middleware(Turns, keys=keys),
        ],
        exception_handlers={
            RuntimeFailure: failed,
            BodyTooLarge: too_large,
            ClientLeft: left,
            ClientDisconnect: left,
            HTTPException: not_there,
        },
        lifespan=lifespan,
    )


def _crashed(error: Exception) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9315",
        f"the server failed, not your request: {type(error).__name__}",
        notes=["its log says where, under the id of this request"],
    )


def _no_route(request: Request, error: HTTPException) -> dict[str, Any]:
    path = request.url.path
    known = [route for route, _ in (*POSTS, *GETS)]
    if error.status_code == 404:
        said = f"there is no `{path}`"
        helps = did_you_mean(path, [route for route in known if "{" not in route])
    else:
        other = "POST" if path in [route for route, _ in POSTS] else "GET"
        said, helps = f"`{path}` is not asked with {request.method}", [f"ask it with {other}"]
    return {
        "message": "; ".join([said, *helps]),
        "type": "not_found_error",
        "param": None,
        "code": "MS9223",
        "name": "no-such-route",
        "notes": [f"there is {', '.join(f'`{route}`' for route in known)}"],
        "helps": helps,
    }

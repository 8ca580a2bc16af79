"""Connections over real sockets: those that ask nothing, ask slowly, or leave."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.app import Endpoint
from mstarc_runtime.server.arguments import parse_serve
from mstarc_runtime.server.connections import config_of, connection_of, listening_at
from mstarc_runtime.server.limits import Limits, Patience, limits_of
from mstarc_runtime.server.refusals import refusal
from mstarc_runtime.server.streaming import ClientLeft, unless_gone

IDLE_S, REQUEST_S = 0.3, 0.25
LONG_S = 20.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Small:
    """What an endpoint needs of a service."""

    limits = Limits(queue=1, body_bytes=1_000_000, unread_bytes=1)


class Server:
    """A server of three routes. `left` is set when a client has left, or a request was too slow."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.left = asyncio.Event()
        self.waits = asyncio.Event()

    async def dial(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def serving(patience: Patience) -> AsyncIterator[Server]:
    listening = listening_at("127.0.0.1", 0)
    server = Server(listening.getsockname()[1])

    async def length(request: Request, _: object) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def wait(request: Request, _: object) -> Response:
        async def forever() -> Response:
            server.waits.set()
            await asyncio.sleep(LONG_S)
            return Response()

        return await unless_gone(request, forever(), server.left.set)

    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        while True:
            await socket.send_text(await socket.receive_text())

    async def failed(_: Request, failure: Exception) -> Response:
        assert isinstance(failure, RuntimeFailure)
        server.left.set()
        return refusal(failure)

    async def left(_: Request, __: Exception) -> Response:
        return Response(status_code=499)

    def endpoint(answer: Callable[..., Awaitable[Response]]) -> Endpoint:
        return Endpoint(answer, Small())  # type: ignore[arg-type]

    app = Starlette(
        routes=[
            Route("/", endpoint(length), methods=["GET", "POST"]),
            Route("/wait", endpoint(wait), methods=["GET"]),
            WebSocketRoute("/echo", echo),
        ],
        exception_handlers={RuntimeFailure: failed, ClientLeft: left},
    )
    running = uvicorn.Server(config_of(app, patience))
    task = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        yield server
    finally:
        running.should_exit = running.force_exit = True
        await task


def run(
    work: Callable[[Server], Awaitable[None]],
    patience: Patience = Patience(idle_s=IDLE_S, request_s=REQUEST_S),  # noqa: B008
) -> None:
    async def all_of_it() -> None:
        async with serving(patience) as server:
            await work(server)

    asyncio.run(asyncio.wait_for(all_of_it(), LONG_S))


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status and the body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.split(b"content-length: ")[1].split(b"\r\n")[0]
    return int(head.split()[1]), await reader.readexactly(int(length))


def code_of(content: bytes) -> str:
    return str(json.loads(content)["error"]["code"])


def test_a_connection_that_asks_nothing_is_closed() -> None:
    async def work(server: Server) -> None:
        reader, _ = await server.dial()
        began_s = asyncio.get_running_loop().time()
        assert await reader.read() == b""
        assert asyncio.get_running_loop().time() - began_s > IDLE_S / 2

    run(work)


def test_a_connection_that_was_answered_is_closed_later() -> None:
    async def work(server: Server) -> None:
        reader, writer = await server.dial()
        for _ in range(2):
            writer.write(GET)
            assert await answer(reader) == (200, b"0")
        assert await reader.read() == b""

    run(work)


@pytest.mark.parametrize("drips", [True, False])
def test_a_head_that_does_not_end_is_refused(drips: bool) -> None:
    async def work(server: Server) -> None:
        reader, writer = await server.dial()
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n")
        reading = asyncio.create_task(answer(reader))
        while drips and not reading.done():
            writer.write(b"x-more: 1\r\n")
            await asyncio.wait({reading}, timeout=REQUEST_S / 5)
        status, content = await reading
        assert (status, code_of(content)) == (408, "MS9224")
        # What came meanwhile and nobody has read makes the end of a connection a reset.
        with suppress(ConnectionResetError):
            assert await reader.read() == b""

    run(work)


def test_a_body_that_does_not_end_is_refused_and_others_are_answered() -> None:
    async def work(server: Server) -> None:
        reader, writer = await server.dial()
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1234")
        other, asks = await server.dial()
        asks.write(GET)
        assert await answer(other) == (200, b"0")
        status, content = await answer(reader)
        assert (status, code_of(content)) == (408, "MS9224")
        assert await reader.read() == b""

    run(work)


def test_a_body_that_keeps_coming_has_longer() -> None:
    async def work(server: Server) -> None:
        reader, writer = await server.dial()
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n")
        reading = asyncio.create_task(answer(reader))
        for _ in range(6):
            writer.write(b" " * 10_000)
            # Twice as fast as it must come, and longer than an idle one has.
            await asyncio.wait({reading}, timeout=0.1)
        assert await reading == (200, b"60000")

    run(work)


def test_a_body_may_wait_to_be_asked_for() -> None:
    async def work(server: Server) -> None:
        reader, writer = await server.dial()
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n"
        writer.write(head)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(b"1234")
        assert await answer(reader) == (200, b"4")

    run(work)


def test_requests_may_come_together() -> None:
    async def work(server: Server) -> None:
        reader, writer = await server.dial()
        writer.write(GET * 3)
        for _ in range(3):
            assert await answer(reader) == (200, b"0")

    run(work)


def test_a_request_that_is_answered_has_all_the_time_and_ends_with_its_client() -> None:
    async def work(server: Server) -> None:
        _, writer = await server.dial()
        writer.write(GET.replace(b" / ", b" /wait "))
        await server.waits.wait()
        await asyncio.wait({asyncio.ensure_future(server.left.wait())}, timeout=3 * IDLE_S)
        assert not server.left.is_set()
        writer.close()
        await server.left.wait()

    run(work)


def test_a_websocket_may_say_nothing() -> None:
    async def work(server: Server) -> None:
        async with connect(f"ws://127.0.0.1:{server.port}/echo") as socket:
            coming = asyncio.ensure_future(socket.recv())
            await asyncio.wait({coming}, timeout=3 * IDLE_S)
            await socket.send("still there")
            assert await coming == "still there"

    run(work)


def test_another_server_has_no_such_connections() -> None:
    assert connection_of({"type": "http", "state": {}}) is None


def test_how_long_is_an_option() -> None:
    said = limits_of(parse_serve(["plan", "--idle-timeout", "5", "--request-timeout", "7"]))
    assert said.patience == Patience(idle_s=5, request_s=7)
    assert limits_of(parse_serve(["plan"])).patience == Patience(idle_s=60, request_s=30)


def test_a_host_that_is_none_is_told_apart_from_a_port_that_is_taken() -> None:
    with pytest.raises(RuntimeFailure, match="invalid") as caught:
        listening_at("nowhere.invalid", 0)
    assert "`--host 127.0.0.1`" in caught.value.helps[0]

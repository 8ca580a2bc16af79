"""Connections of clients: what ends those that ask nothing or not whole, and who sees them go.

Uvicorn speaks HTTP; what is added is told to an application through the request's `state`: its
connection, of which it can be told when it is lost, and whether its body comes too slowly.
"""

import asyncio
import errno
import gc
import socket
from typing import Any, Final

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server.limits import LEAST_BYTES_A_SECOND, Patience
from mstarc_runtime.server.refusals import error_of, status_of

_STATE: Final = "connection"
# What an application has for its refusal of a body that came too slowly.
_TO_REFUSE_S: Final = 1.0
# Objects that are made before the youngest are looked through for cycles.
_YOUNG: Final = 10_000


class _Joining(asyncio.Transport):
    """A transport that keeps the head of an answer back, to write it with the first of its body.

    Two packets cost nearly twice what one does. A body always follows, if an empty one, or an end.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self.beneath = transport
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data[:5] == b"HTTP/" and data[9:10] != b"1":
            # Not `100 Continue`, for which a client waits.
            self._head = bytes(data)
            return
        self.beneath.write(data)

    def close(self) -> None:
        if self._head:
            self.write(b"")
        self.beneath.close()

    def abort(self) -> None:
        self.beneath.abort()

    def is_closing(self) -> bool:
        return self.beneath.is_closing()

    def pause_reading(self) -> None:
        self.beneath.pause_reading()

    def resume_reading(self) -> None:
        self.beneath.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.beneath.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.beneath.set_protocol(protocol)


class Connection(H11Protocol):
    """A client's connection. A request is on its way from its first byte to its last."""

    patience = Patience()

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, _STATE: self}, _loop)
        self.is_slow = False
        self.has_left = False
        self._task: asyncio.Task[Any] | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._since_s = self.loop.time()
        self._came_bytes = 0

    def ends_with_client(self, task: "asyncio.Task[Any] | None") -> None:
        """Has this task cancelled when the client leaves, or none any more."""
        self._task = task
        if self.has_left and task is not None:
            task.cancel()

    # What asyncio and uvicorn call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._joining = self.transport = _Joining(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_no_more()
        super().connection_lost(exc)
        self.has_left = True
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if not self._came_bytes:
            self._since_s = self.loop.time()
        self._came_bytes += len(data)
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._came_bytes = 0
        super().on_response_complete()
        if not self.cycle.response_complete:
            # Its next request had come with this one, or a part of it.
            self._since_s, self._came_bytes = self.loop.time(), 1

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._look_no_more()
        self.transport = self._joining.beneath
        super().handle_websocket_upgrade(event)

    # Time

    def _look(self) -> None:
        """Ends the connection if it is late, or looks again when it may be.

        One timer a connection, and not one a request: it goes on where something came meanwhile.
        """
        now_s = self.loop.time()
        due_s = self._due_s()
        if due_s is not None and due_s <= now_s:
            self._late()
            return
        next_s = now_s + self.patience.request_s
        when_s = next_s if due_s is None else min(due_s, next_s)
        self._looking = self.loop.call_at(when_s, self._look)

    def _look_no_more(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    @property
    def _is_between(self) -> bool:
        """Whether the head of its next request has not come whole."""
        return self.cycle is None or self.cycle.response_complete

    def _due_s(self) -> float | None:
        """When it ends if nothing more comes; None while it is answered.

        Where it has been answered, and nothing came since, uvicorn's own timer is running.
        """
        if self._came_bytes and (self._is_between or self.cycle.more_body):
            allowed_s = self.patience.request_s + self._came_bytes / LEAST_BYTES_A_SECOND
            return self._since_s + allowed_s
        return None if self.cycle is not None else self._since_s + self.patience.idle_s

    def _late(self) -> None:
        if not self._came_bytes or self.is_slow:
            self.transport.close()
        elif not self._is_between:
            # Whoever reads the body refuses it; if nobody does, that is the end of it.
            self.is_slow = True
            self.cycle.keep_alive = False
            self.cycle.message_event.set()
            self._looking = self.loop.call_later(_TO_REFUSE_S, self._look)
        else:
            self._refuse()
            self.transport.close()

    def _refuse(self) -> None:
        """Says that a head came too slowly, if it can still be said."""
        if self.conn.our_state is not h11.IDLE:
            return
        failure = too_slow(self.patience)
        content = msgspec.json.encode({"error": error_of(failure)})
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(content))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status_of(failure), headers=headers, reason="Request Timeout"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")


def connection_of(scope: Scope) -> Connection | None:
    """The connection that a request came over; None where another server has taken it."""
    found = scope.get("state", {}).get(_STATE)
    return found if isinstance(found, Connection) else None


def too_slow(patience: Patience) -> RuntimeFailure:
    """MS9224."""
    return RuntimeFailure(
        "MS9224",
        "the request did not come whole in its time",
        notes=[
            f"it has {patience.request_s:.0f} s, and one more for each "
            f"{LEAST_BYTES_A_SECOND // 1000} kB that came"
        ],
        helps=["send it faster, or ask whoever runs the server for a longer `--request-timeout`"],
    )


def config_of(app: ASGIApp, patience: Patience, drain_s: int | None = None) -> uvicorn.Config:
    """How uvicorn serves an application."""
    protocol = type("PatientConnection", (Connection,), {"patience": patience})
    return uvicorn.Config(
        app,
        http=protocol,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=max(1, round(patience.idle_s)),
        timeout_graceful_shutdown=drain_s,
    )


def collect_rarely() -> None:
    """Has the collector of cycles leave what was loaded alone, and look less often at what is new.

    A request leaves hardly any cycles; to look for them took a quarter of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


def listening_at(host: str, port: int, backlog: int = 2048) -> socket.socket:
    """A socket that listens. Fails with MS9312."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, protocol, _, address = found[0]
        listening = socket.create_server(
            (str(address[0]), port), family=family, backlog=backlog, reuse_port=False
        )
    except OSError as error:
        is_address = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        raise RuntimeFailure(
            "MS9312",
            f"`{host}` can't be listened on at port {port}",
            notes=[f"the system says: {error.strerror}"],
            helps=[
                "`--host 127.0.0.1` is this machine alone, `--host 0.0.0.0` all its addresses"
                if is_address
                else "`--port 0` takes a free port"
            ],
        ) from error
    # Said of no protocol, its connections would keep back the second part of each small answer
    # until the client's system has confirmed the first: for 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, protocol, fileno=listening.detach())

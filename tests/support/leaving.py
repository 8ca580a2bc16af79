"""A client that asks over HTTP and leaves, at a moment of chance."""

import json
import socket
import time
from random import Random
from typing import Any

from tests.support.serving import Server

_ROUTES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/audio/speech", {"input": "hello"}),
    ("/v1/audio/speech", {"input": "hello", "stream_format": "sse"}),
    ("/v1/audio/speech", {"input": "hello", "stream": False}),
)


def leave(server: Server, random: Random) -> str:
    """Asks and leaves: in its head, its body, at once, after some bytes, or after a while."""
    route, fields = random.choice(_ROUTES)
    body = json.dumps({**fields, "seed": random.randrange(3), "max_tokens": 90}).encode()
    head = f"POST {route} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    host, port = server.address.removeprefix("http://").split(":")
    how = random.choice(("in its head", "in its body", "at once", "after bytes", "after a while"))
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        if how == "in its head":
            connection.sendall(head[: random.randrange(1, len(head) - 2)])
            return how
        if how == "in its body":
            connection.sendall(head + body[: random.randrange(len(body))])
            return how
        connection.sendall(head + body)
        if how == "after bytes":
            left = random.randrange(1, 30_000)
            while left > 0 and (piece := connection.recv(min(left, 4096))):
                left -= len(piece)
        elif how == "after a while":
            time.sleep(random.random() * 0.3)
    return how

"""A server that speaks as OpenAI's do, small enough for tests: it answers at once, with silence.

Speech is a WAV file of unknown length, raw samples or events, in as many chunks as `max_tokens`
says; a chat is a word a token.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RATE = 24_000
CHUNK_SAMPLES = 2048
_UNKNOWN = 0xFFFFFFFF


def wav_header(rate: int = RATE) -> bytes:
    """Of a mono WAV file of 16-bit samples whose length is not known yet."""
    form = b"fmt " + (16).to_bytes(4, "little") + (1).to_bytes(2, "little")
    form += (1).to_bytes(2, "little") + rate.to_bytes(4, "little")
    form += (2 * rate).to_bytes(4, "little") + (2).to_bytes(2, "little") + b"\x10\x00"
    size = _UNKNOWN.to_bytes(4, "little")
    return b"RIFF" + size + b"WAVE" + form + b"data" + size


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "FakeServer"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self.server.was_asked.set()
        if body.get("model") == "unknown":
            self._refuse(404, {"error": {"message": "there is no such model"}})
            return
        count = int(body.get("max_tokens", 3))
        self.send_response(200)
        if self.path == "/v1/chat/completions":
            self._begin("text/event-stream")
            for number in range(count):
                self._event({"choices": [{"delta": {"content": f"w{number} "}}]})
            self._event({"choices": [], "usage": {"completion_tokens": count}})
            self._chunk(b"data: [DONE]\n\n")
        elif body.get("response_format") == "pcm":
            self._begin(f"audio/pcm;rate={RATE}")
            for _ in range(count):
                self._chunk(bytes(2 * CHUNK_SAMPLES))
        elif body.get("stream_format") == "sse":
            self._begin("text/event-stream")
            for _ in range(count):
                data = base64.b64encode(bytes(2 * CHUNK_SAMPLES)).decode()
                self._event({"type": "speech.audio.delta", "audio": data})
            self._event({"type": "speech.audio.done"})
        else:
            self._begin("audio/wav")
            self._chunk(wav_header())
            for _ in range(count):
                self._chunk(bytes(2 * CHUNK_SAMPLES))
        self._chunk(b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nobody reads a test's log."""

    def _begin(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _event(self, content: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(content).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _refuse(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class FakeServer(ThreadingHTTPServer):
    """`asked` are (path, body) of every request, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.was_asked = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    """A server at work, while it lasts."""
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

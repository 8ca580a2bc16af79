"""A client of the language server: the protocol over the stdin and stdout of a real process."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, Self

from tests.support.golden import ROOT

ANSWER_S = 30.0
"""A server that is silent for longer has failed; a busy machine has not."""


class LspClient:
    """Starts `mstarc lsp`, and says goodbye to it at the end of a `with`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mstarc", "lsp"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.published: dict[str, list[dict[str, Any]]] = {}
        self.number = 0
        self.versions: dict[str, int] = {}
        threading.Thread(target=self._read, daemon=True).start()
        # Nobody reads what the server logs, and a full pipe would stop it.
        threading.Thread(target=self._drain, daemon=True).start()

    def __enter__(self) -> Self:
        self.capabilities = self.ask(
            "initialize",
            {"processId": None, "rootUri": None, "capabilities": {}},
        )["capabilities"]
        self.tell("initialized", {})
        return self

    def __exit__(self, *problem: object) -> None:
        if problem[0] is None:
            self.ask("shutdown", None)
        self.tell("exit", None)
        try:
            self.process.wait(ANSWER_S)
        finally:
            self.process.kill()

    # The protocol

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """Send a request and wait for its answer. Raises `LspError` where that is an error."""
        self.number += 1
        self._send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == self.number and "method" not in message:
                if "error" in message:
                    raise LspError(message["error"]["message"])
                return message.get("result")

    def diagnostics(self, uri: str, version: int | None = None) -> list[dict[str, Any]]:
        """The next findings that the server publishes for a document, of a version if given."""
        while True:
            message = self._next()
            if message.get("method") != "textDocument/publishDiagnostics":
                continue
            params = message["params"]
            if params["uri"] == uri and version in (None, params.get("version")):
                found: list[dict[str, Any]] = params["diagnostics"]
                return found

    def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _next(self) -> dict[str, Any]:
        message = self.messages.get(timeout=ANSWER_S)
        assert message is not None, "the server ended"
        return message

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            length = 0
            while header.strip():
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
                header = stream.readline()
            self.messages.put(json.loads(stream.read(length)))
        self.messages.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        while self.process.stderr.read(4096):
            pass

    # Documents

    def open(self, uri: str, text: str) -> None:
        """Open a document."""
        self.versions[uri] = 1
        document = {"uri": uri, "languageId": "mstar", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, start: tuple[int, int], end: tuple[int, int], text: str) -> int:
        """Replace a range of a document; gives the version that it has then."""
        self.versions[uri] += 1
        change = {"range": {"start": _position(start), "end": _position(end)}, "text": text}
        document = {"uri": uri, "version": self.versions[uri]}
        params = {"textDocument": document, "contentChanges": [change]}
        self.tell("textDocument/didChange", params)
        return self.versions[uri]

    def at(self, method: str, uri: str, place: tuple[int, int], **more: Any) -> Any:
        """Ask about a place."""
        params = {"textDocument": {"uri": uri}, "position": _position(place), **more}
        return self.ask(f"textDocument/{method}", params)

    def about(self, method: str, uri: str, **more: Any) -> Any:
        """Ask about a document."""
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, **more})


class LspError(Exception):
    """The server answers with an error."""


def place_of(text: str, words: str, behind: bool = False) -> tuple[int, int]:
    """Line and UTF-16 column of the first `words` in a text, or behind them."""
    offset = text.index(words) + (len(words) if behind else 0)
    line = text.count("\n", 0, offset)
    before = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line, len(before.encode("utf-16-le")) // 2


def _position(place: tuple[int, int]) -> dict[str, int]:
    return {"line": place[0], "character": place[1]}

"""`vox-serve` 0.1.0: how it is started, and a door at which it is asked as the others are.

It has a route of its own, `/generate`, which takes a form; the door takes `/v1/audio/speech` and
hands on what comes, chunk by chunk. Other models of the package import libraries that Orpheus does
not use: empty modules stand in for them.
"""

import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "vox-serve 0.1.0"
MODEL = "canopylabs/orpheus-3b-0.1-ft"
CHANGES = (
    "vox_serve: weights from a local Hugging Face cache",
    "vox_serve: librosa, phonemizer, pydub and inflect are empty modules, versions are not pinned",
    "vox_serve: `max_tokens` counts the prompt too, so it is greater by a prompt's most tokens",
)
PROMPT_TOKENS = 130
"""What the longest prompt of 16 words, one token a byte, has."""

SITE = """import importlib.machinery
import sys
import types


class _Empty(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {{}})


for _name in {names!r}:
    try:
        __import__(_name)
    except ImportError:
        _module = _Empty(_name)
        _module.__path__ = []
        _module.__spec__ = importlib.machinery.ModuleSpec(_name, None)
        sys.modules[_name] = _module
        _parent, _, _last = _name.rpartition(".")
        if _parent:
            setattr(sys.modules[_parent], _last, _module)
"""
STAND_INS = (
    "librosa",
    "librosa.filters",
    "phonemizer",
    "phonemizer.backend",
    "pydub",
    "inflect",
)


def site_text() -> str:
    """Its `sitecustomize.py`."""
    return SITE.format(names=STAND_INS)


def write_hub(home: Path, folders: dict[str, Path]) -> None:
    """A Hugging Face cache at `home` whose repositories are the folders."""
    for repository, folder in folders.items():
        place = home / "hub" / f"models--{repository.replace('/', '--')}"
        (place / "refs").mkdir(parents=True, exist_ok=True)
        (place / "refs" / "main").write_text("0" * 40, encoding="utf-8")
        snapshot = place / "snapshots" / ("0" * 40)
        snapshot.parent.mkdir(exist_ok=True)
        if not snapshot.exists():
            snapshot.symlink_to(folder, target_is_directory=True)


def command(python: str, port: int, batches: Sequence[int], tokens: int) -> list[str]:
    return [
        *(python, "-m", "vox_serve.launch", "--model", MODEL),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-batch-size", str(max(batches)), "--max-tokens", str(tokens + PROMPT_TOKENS)),
        *("--temperature", "0.6", "--max-num-pages", "512", "--socket-suffix", str(port)),
    ]


@contextmanager
def door(url: str) -> Iterator[str]:
    """A server that asks `url` in its own way: its URL."""

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            form = {"text": asked["input"], "streaming": "true"}
            body = urllib.parse.urlencode(form).encode()
            with urllib.request.urlopen(f"{url}/generate", body) as answer:
                self.send_response(200)
                self.send_header("Content-Type", "audio/wav")
                self.end_headers()
                while data := answer.read1(1 << 16):
                    self.wfile.write(data)

        def log_message(self, *words: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_address[1]}"
        finally:
            made.shutdown()
            thread.join()

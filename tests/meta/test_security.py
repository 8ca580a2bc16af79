"""What the page on security promises: no pickle, and no path of a request that reaches a file."""

import ast
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit import findings
from tests.support.golden import ROOT
from tests.support.serving import HELLO, compiled

PICKLING = {
    *("pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    "multiprocessing",  # sends objects as pickles
}
# Why these are no way in.
PICKLES = {
    "mstarc/cli/in_processes.py": "results of its own children, over pipes that nobody else has",
    "runtime/mstarc_runtime/weights/convert/torch_file.py": "the error of torch's safe reader",
}
UNSAFE_CALLS = {"recv_pyobj", "send_pyobj", "unsafe_load", "full_load", "loads_pickle"}
FILES = sorted(path for top in ("mstarc", "runtime") for path in (ROOT / top).rglob("*.py"))
MARK = "a-path-of-a-client"


def names_of(path: Path) -> tuple[set[str], Iterator[ast.Call]]:
    """The modules that a file imports, and its calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
    return imported, (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_nothing_is_unpickled() -> None:
    found = set()
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        imported, calls = names_of(path)
        if imported & PICKLING:
            found.add(name)
        for call in calls:
            said = ast.unparse(call.func)
            words = {word.arg: ast.unparse(word.value) for word in call.keywords}
            if said in ("torch.load", "load") and "torch" in imported and "map_location" in words:
                assert words.get("weights_only") == "True", f"{name}:{call.lineno}"
            if said in ("np.load", "numpy.load"):
                assert words.get("allow_pickle", "False") == "False", f"{name}:{call.lineno}"
            assert said.rpartition(".")[2] not in UNSAFE_CALLS, f"{name}:{call.lineno}"
            assert said != "yaml.load" or "Loader" in words, f"{name}:{call.lineno}"
    assert found == set(PICKLES)


def test_the_one_import_of_pickle_in_the_runtime_is_for_an_error() -> None:
    (name,) = [name for name in PICKLES if name.startswith("runtime")]
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle"
    }
    assert used == {"UnpicklingError"}


def requests_with_paths() -> Iterator[tuple[str, str, bytes, str]]:
    """(method, path, body, content type), each with a path where a client can write one."""
    path = f"/{MARK}/passwd"
    yield "GET", f"/page/{MARK}", b"", ""
    yield "GET", f"/page/..%2f..%2f{MARK}", b"", ""
    yield "GET", f"/v1/models/{MARK}", b"", ""
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/generate", {"inputs": {"prompt": path}, "wants": ["reply"]}),
        ("/generate", {"inputs": {"prompt": {"file": path}}}),
        ("/generate", {"inputs": {"prompt": f"@{path}"}, "wants": [path]}),
        ("/generate", {"inputs": {"prompt": "hi"}, "options": {path: 1}}),
        ("/v1/audio/speech", {"input": path, "voice": path}),
        ("/v1/audio/speech", {"input": "hi", "response_format": path}),
        ("/v1/chat/completions", {"model": path, "messages": [{"role": "user", "content": path}]}),
        *(
            (
                "/v1/chat/completions",
                {
                    "messages": [
                        {
                            "role": "user",
                            "content": [{"type": "image_url", "image_url": {"url": url}}],
                        }
                    ]
                },
            )
            for url in (path, f"file://{path}", f"../../{MARK}")
        ),
        ("/v1/images/generations", {"prompt": path, "size": path}),
    ]
    for route, body in bodies:
        yield "POST", route, json.dumps(body).encode(), "application/json"
    head = f'Content-Disposition: form-data; name="file"; filename="../..{path}"'
    part = f"--x\r\n{head}\r\n\r\na\r\n--x--\r\n"
    for route in ("/v1/audio/transcriptions", "/v1/images/edits"):
        yield "POST", route, part.encode(), "multipart/form-data; boundary=x"


async def ask(app: Any, method: str, path: str, body: bytes, kind: str) -> int:
    """The status of an answer, asked without a socket."""
    statuses = []
    came = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if came:
            return came.pop()
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"content-type", kind.encode()), (b"x-request-id", MARK.encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path.replace("%2f", "/"),
        "raw_path": path.encode(),
        "query_string": f"model=/{MARK}".encode(),
        "root_path": "",
        "scheme": "http",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return int(statuses[0])


def test_no_path_of_a_request_reaches_a_file(tmp_path: Path) -> None:
    null_server = pytest.importorskip("benchmarks.null_server")
    app = null_server.null_app(compiled(tmp_path, *HELLO, "cpu"))
    opened = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename"):
            opened.extend(str(argument) for argument in arguments if MARK in str(argument))

    sys.addaudithook(hook)
    Path(tmp_path / "seen").write_text("")
    asked = list(requests_with_paths())
    for one in asked:
        status = asyncio.run(ask(app, *one))
        assert status < 500, one
    assert opened == []
    with pytest.raises(FileNotFoundError):
        (tmp_path / MARK).read_text()
    assert opened, "the hook hears what is opened"


def test_the_audit_counts_what_was_looked_up() -> None:
    assert findings('{"dependencies": []}') == (0, [])


def test_a_server_listens_on_this_machine_alone_unless_told() -> None:
    from mstarc_runtime.server.arguments import parse_serve

    assert parse_serve(["plan"]).host == "127.0.0.1"

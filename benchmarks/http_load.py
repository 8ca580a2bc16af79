"""What the HTTP layer costs beside the bare framework: the same JSON in and out, no model.

    python benchmarks/http_load.py [--connections 1 64 1024] [--rounds 5] [--seconds 2] [--json]

Two servers: `/generate` as `mstarc serve` has it, whose model answers at once, and a route of
Starlette alone. The same client asks them in turn, window by window, with so many connections that
each send their next request when they have their answer. Cost is the processor time of the server a
request, so that it does not depend on what else the machine does; requests a second and the 99th
percentile of latency are shown too. The exit status is 1 if the median cost of any number of
connections is more than 1.5 times that of the bare route.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "runtime")]

from mstarc_runtime.server.limits import Patience  # noqa: E402
from mstarc_runtime.server.open_files import allow_connections  # noqa: E402

MOST_RATIO = 1.5
BODY = json.dumps(
    {"inputs": {"prompt": "hello"}, "options": {"max_tokens": 40}, "wants": ["reply"], "seed": 3}
).encode()
HEAD = (
    b"POST /generate HTTP/1.1\r\nhost: x\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
REQUEST = HEAD % len(BODY) + BODY


class Connection(asyncio.Protocol):
    """Asks again as soon as it is answered, until it is told to stop."""

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = seconds
        self._came = bytearray()
        self._wanted = 0
        self._asked_s = 0.0
        self.goes_on = True
        self.is_idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self) -> None:
        self._asked_s = time.perf_counter()
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self._came += data
        if not self._wanted:
            end = self._came.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._came[:end]).lower()
            assert head.startswith(b"http/1.1 200"), bytes(self._came)
            length = head.split(b"content-length:")[1].split(b"\r\n")[0]
            self._wanted = end + 4 + int(length)
        if len(self._came) < self._wanted:
            return
        self._seconds.append(time.perf_counter() - self._asked_s)
        self._came.clear()
        self._wanted = 0
        if self.goes_on:
            self.ask()
        elif not self.is_idle.done():
            self.is_idle.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_idle.done():
            self.is_idle.set_exception(error or ConnectionError("closed"))

    def close(self) -> None:
        self._transport.close()


@dataclass
class Served:
    """A server's process, its port, and what its windows were."""

    name: str
    process: "subprocess.Popen[str]"
    port: int
    windows: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    def cpu_s(self) -> float:
        """Processor time of all its threads."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def middle(self, connections: int, what: str) -> float:
        return statistics.median(window[what] for window in self.windows[connections])


async def window(served: Served, connections: int, lasts_s: float) -> dict[str, float]:
    """Load for a while: requests a second, seconds, and processor time a request."""
    loop = asyncio.get_running_loop()
    seconds: list[float] = []
    made = []
    for _ in range(connections):
        _, one = await loop.create_connection(lambda: Connection(seconds), "127.0.0.1", served.port)
        made.append(one)
    cpu_s, began_s = served.cpu_s(), time.perf_counter()
    for one in made:
        one.ask()
    await asyncio.sleep(lasts_s)
    for one in made:
        one.goes_on = False
    await asyncio.gather(*(one.is_idle for one in made))
    lasted_s, used_s = time.perf_counter() - began_s, served.cpu_s() - cpu_s
    for one in made:
        one.close()
    ordered = sorted(seconds)
    return {
        "requests_a_second": len(ordered) / lasted_s,
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[int(len(ordered) * 0.99)],
        "cpu_us": 1e6 * used_s / len(ordered),
    }


def begin(name: str, plan: Path) -> Served:
    """A server as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--as", name, "--plan", str(plan)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return Served(name, process, int(process.stdout.readline()))


def compile_plan(folder: Path) -> Path:
    root = Path(__file__).parents[1]
    spec = root / "examples" / "hello_stream" / "hello_stream.mstar"
    words = ("--sizes", str(spec.with_name("sizes.yaml")), "--placement", "cpu")
    subprocess.run(
        [sys.executable, "-m", "mstarc", "compile", str(spec), *words, "-o", str(folder / "plan")],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'runtime'}"},
    )
    return folder / "plan"


def serve(name: str, plan: Path) -> None:
    """Runs one of the two servers; its port is the first line on stdout."""
    import uvicorn

    from benchmarks.null_server import bare_app, null_app
    from mstarc_runtime.server.connections import collect_rarely, config_of, listening_at

    allow_connections()
    patience = Patience()
    if name == "ours":
        config = config_of(null_app(plan), patience)
    else:
        idle_s = round(patience.idle_s)
        config = uvicorn.Config(
            bare_app(), http="h11", log_level="warning", access_log=False, timeout_keep_alive=idle_s
        )
    listening = listening_at("127.0.0.1", 0, backlog=4096)
    collect_rarely()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


def compare(connections: list[int], rounds: int, seconds: float) -> dict[str, Any]:
    """Both servers under the same load, window by window."""
    allow_connections()
    with tempfile.TemporaryDirectory() as name:
        plan = compile_plan(Path(name))
        both = [begin("ours", plan), begin("bare", plan)]
        try:
            for served in both:
                asyncio.run(window(served, 8, 0.5))
            for count in connections:
                for _ in range(rounds):
                    for served in both:
                        made = asyncio.run(window(served, count, seconds))
                        served.windows.setdefault(count, []).append(made)
        finally:
            for served in both:
                served.process.terminate()
                served.process.wait()
    ours, bare = both
    return {
        str(count): {
            "ours": {what: ours.middle(count, what) for what in ours.windows[count][0]},
            "bare": {what: bare.middle(count, what) for what in bare.windows[count][0]},
            "cost": statistics.median(
                a["cpu_us"] / b["cpu_us"]
                for a, b in zip(ours.windows[count], bare.windows[count], strict=True)
            ),
        }
        for count in connections
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--as", dest="name", help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.name:
        serve(options.name, options.plan)
        return 0
    found = compare(options.connections, options.rounds, options.seconds)
    if options.json:
        print(json.dumps(found, indent=1))
    for count, one in {} if options.json else found.items():
        for name in ("ours", "bare"):
            said = one[name]
            print(
                f"{count:>5} connections, {name}: {said['requests_a_second']:7.0f} a second, "
                f"p50 {said['p50_ms']:7.2f} ms, p99 {said['p99_ms']:7.2f} ms, "
                f"{said['cpu_us']:5.0f} µs of processor a request"
            )
        print(f"{count:>5} connections: {one['cost']:.2f} times the bare route's cost")
    return 0 if all(one["cost"] <= MOST_RATIO for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

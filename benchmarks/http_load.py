"""What the HTTP layer costs beside the bare framework: the same JSON in and out, no model.

    python benchmarks/http_load.py [--connections 1 64 1024] [--rounds 9] [--seconds 1] [--json]
                                   [--later] [--same-connections]

Two servers, each a process: `/generate` as `mstarc serve` has it, whose model answers at once (with
`--later`, when its request already waits), and one route of Starlette, which reads the JSON with
`request.json()` and answers with a `JSONResponse` and a request's id in its head. Uvicorn serves
both with the same parser, loop, and settings of sockets and of the collector; the one with the
connections of `mstarc serve`, which end what is idle or too slow, the other with its own, unless
`--same-connections` says that both have ours. That both give the same answer is checked first: the
same status, names of headers, and body. Ours writes its log, too.

The same client asks both in turn, window by window, with so many connections that each send their
next request when they have their answer. Cost is the processor time of the server a request, so
that it depends less on what else the machine does; requests a second and the 99th percentile of
latency are shown too. The exit status is 1 if the median cost of any number of connections is more
than 1.5 times that of the bare route.
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
from collections.abc import Sequence
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

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._came = bytearray()
        self._wanted = 0
        self._asked_s = 0.0
        self.goes_on = False
        self.answer = b""
        self._idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def once(self) -> bytes:
        """Asks, and gives the answer when it is there."""
        self.ask()
        await self.idle()
        return self.answer

    async def idle(self) -> None:
        """Waits for the last answer."""
        await self._idle
        self._idle = asyncio.get_running_loop().create_future()

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
        self.seconds.append(time.perf_counter() - self._asked_s)
        if not self.goes_on and not self._idle.done():
            self.answer = bytes(self._came)
            self._idle.set_result(None)
        self._came.clear()
        self._wanted = 0
        if self.goes_on:
            self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._idle.done():
            self._idle.set_exception(error or ConnectionError("closed"))

    def close(self) -> None:
        self._idle.cancel()
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


async def connected(served: Served, connections: int) -> list[Connection]:
    """So many connections, each of which has been answered once."""
    loop = asyncio.get_running_loop()
    made = []
    for _ in range(connections):
        _, one = await loop.create_connection(Connection, "127.0.0.1", served.port)
        made.append(one)
    await asyncio.gather(*(one.once() for one in made))
    return made


async def measured(served: Served, made: list[Connection], lasts_s: float) -> dict[str, float]:
    """Load for a while: requests a second, seconds, and processor time a request."""
    for one in made:
        one.seconds.clear()
    cpu_s, began_s = served.cpu_s(), time.perf_counter()
    for one in made:
        one.goes_on = True
        one.ask()
    await asyncio.sleep(lasts_s)
    for one in made:
        one.goes_on = False
    await asyncio.gather(*(one.idle() for one in made))
    lasted_s, used_s = time.perf_counter() - began_s, served.cpu_s() - cpu_s
    ordered = sorted(seconds for one in made for seconds in one.seconds)
    return {
        "requests_a_second": len(ordered) / lasted_s,
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[int(len(ordered) * 0.99)],
        "cpu_us": 1e6 * used_s / len(ordered),
    }


async def window(served: Served, connections: int, lasts_s: float) -> dict[str, float]:
    """Load of new connections for a while."""
    made = await connected(served, connections)
    found = await measured(served, made, lasts_s)
    for one in made:
        one.close()
    return found


async def rounds_of(both: list[Served], count: int, rounds: int, lasts_s: float) -> None:
    """Windows of both in turn, over the same connections."""
    made = [await connected(served, count) for served in both]
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        for which in order:
            found = await measured(both[which], made[which], lasts_s)
            both[which].windows.setdefault(count, []).append(found)
    for one in (*made[0], *made[1]):
        one.close()


async def answer(served: Served) -> tuple[bytes, list[bytes], bytes]:
    """The status, the names of headers, and the body of one answer."""
    loop = asyncio.get_running_loop()
    _, one = await loop.create_connection(Connection, "127.0.0.1", served.port)
    head, _, body = (await one.once()).partition(b"\r\n\r\n")
    one.close()
    status, *lines = head.lower().split(b"\r\n")
    return status, sorted(line.partition(b":")[0] for line in lines), body


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
    if name in ("ours", "later"):
        config = config_of(null_app(plan, is_later=name == "later"), patience)
    elif name == "same":
        config = config_of(bare_app(), patience)
    else:
        idle_s = round(patience.idle_s)
        config = uvicorn.Config(
            bare_app(), http="h11", log_level="warning", access_log=False, timeout_keep_alive=idle_s
        )
    listening = listening_at("127.0.0.1", 0, backlog=4096)
    collect_rarely()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


def compare(
    connections: list[int], rounds: int, seconds: float, names: Sequence[str] = ("ours", "bare")
) -> dict[str, Any]:
    """Both servers under the same load, window by window."""
    allow_connections()
    with tempfile.TemporaryDirectory() as folder:
        plan = compile_plan(Path(folder))
        both = [begin(name, plan) for name in names]
        try:
            ours_said, bare_said = (asyncio.run(answer(served)) for served in both)
            assert ours_said == bare_said, f"{ours_said} and {bare_said}"
            for served in both:
                asyncio.run(window(served, 8, 0.5))
            for count in connections:
                asyncio.run(rounds_of(both, count, rounds, seconds))
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
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--later", action="store_true", help="have the model answer when its request waits"
    )
    parser.add_argument(
        "--same-connections", action="store_true", help="serve the bare route over ours, too"
    )
    parser.add_argument("--as", dest="name", help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.name:
        serve(options.name, options.plan)
        return 0
    names = (
        "later" if options.later else "ours",
        "same" if options.same_connections else "bare",
    )
    found = compare(options.connections, options.rounds, options.seconds, names)
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

"""Whether clients that do nothing, read nothing, or read slowly slow others down.

    python benchmarks/crowd.py [--idle 10000] [--rounds 5] [--seconds 2]

The server of `http_load.py`, whose model answers at once. Eight connections ask all the time:
alone, beside so many idle connections, beside ten clients that ask for minutes of sound and read
nothing of it, and ten that read it a few hundred bytes a second; then beside all of them, each
company between two times alone. The exit status is 1 if the processor time of a request or its
median latency is more than 1.5 times as much in any company.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "runtime")]

from benchmarks.http_load import Served, begin, compile_plan, window  # noqa: E402
from mstarc_runtime.server.open_files import allow_connections  # noqa: E402

ACTIVE = 8
FEW = 10
MOST_RATIO = 1.5
_FLOOD = json.dumps({"input": "flood", "stream_format": "sse"}).encode()
FLOOD = b"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(_FLOOD)


@asynccontextmanager
async def idle(served: Served, count: int) -> AsyncIterator[None]:
    """Connections that say nothing."""
    made = []
    for _ in range(count):
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        made.append(writer)
    yield
    for writer in made:
        writer.close()


@asynccontextmanager
async def flooded(served: Served, count: int, *, reads: bool) -> AsyncIterator[None]:
    """Clients that are sent more than they read."""
    made, reading = [], []

    async def slowly(reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(100):
                await asyncio.sleep(0.3)

    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=256)
        writer.write(FLOOD + _FLOOD)
        made.append(writer)
        if reads:
            reading.append(asyncio.create_task(slowly(reader)))
    await until_calm(served)
    yield
    for task in reading:
        task.cancel()
    for writer in made:
        writer.transport.abort()


async def until_calm(served: Served) -> None:
    """Returns when the server has made what it was asked for."""
    while True:
        await window(served, 1, 0.2)
        before_s = served.cpu_s()
        await asyncio.sleep(0.5)
        if served.cpu_s() - before_s < 0.05:
            return


async def compare(served: Served, options: argparse.Namespace) -> bool:
    companies = {
        f"{options.idle} idle": [idle(served, options.idle)],
        f"{FEW} deaf": [flooded(served, FEW, reads=False)],
        f"{FEW} slow": [flooded(served, FEW, reads=True)],
        "all of them": [
            idle(served, options.idle),
            flooded(served, FEW, reads=False),
            flooded(served, FEW, reads=True),
        ],
    }
    await window(served, ACTIVE, 0.5)
    is_good = True
    for name, company in companies.items():
        alone = [await window(served, ACTIVE, options.seconds) for _ in range(options.rounds)]
        async with AsyncExitStack() as stack:
            for each in company:
                await stack.enter_async_context(each)
            beside = [await window(served, ACTIVE, options.seconds) for _ in range(options.rounds)]
        await until_calm(served)
        alone += [await window(served, ACTIVE, options.seconds) for _ in range(options.rounds)]
        said = []
        for what, unit in (("cpu_us", "µs"), ("p50_ms", "ms"), ("p99_ms", "ms")):
            without = statistics.median(one[what] for one in alone)
            having = statistics.median(one[what] for one in beside)
            said.append(f"{what[:3]} {without:.1f} → {having:.1f} {unit}")
            if what != "p99_ms" and having > MOST_RATIO * without:
                is_good = False
        print(f"{name:>14}: {', '.join(said)}")
    return is_good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    allow_connections()
    with tempfile.TemporaryDirectory() as name:
        served = begin("ours", compile_plan(Path(name)))
        try:
            good = asyncio.run(compare(served, options))
        finally:
            served.process.terminate()
            served.process.wait()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

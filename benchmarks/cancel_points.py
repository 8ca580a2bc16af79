"""Cancels requests at many random points of their life, and counts what is left of them.

    python benchmarks/cancel_points.py [--points 200] [--seed 0] [--only processes|clients]

Two processes, four slots, 32 pages. Of each phase as many points: while a request waits for a slot,
in its prompt, between chunks, with a chunk on its way, after its producer is done, and in the last
flush. Then as many clients that leave a server over HTTP. After every point pages, slots, rings,
threads, file descriptors and shared memory must be as before, the next request right, and the
neighbours' bytes what they are alone. A point that differs ends it with an AssertionError.
"""

import argparse
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.cancel_points import DEPLOYMENT, ORPHEUS, PHASES, SLOTS, cancelling
from tests.support.footprint import Footprint, footprint
from tests.support.leaving import leave
from tests.support.serving import Server, compiled, serving

ASKED = {"input": "hello", "seed": 1, "max_tokens": 60}


def of_processes(plan: Path, cache: Path, points: int, seed: int) -> None:
    began_s = time.monotonic()
    with cancelling(plan, cache) as world:
        for point in range(points):
            world.cancel_at(PHASES[point % len(PHASES)], Random(f"{seed} {point}"))
        world.cancel_in_a_row(SLOTS + 1)
        print(f"{points} points in {time.monotonic() - began_s:.0f} s, and {SLOTS + 1} in a row")
        for phase in PHASES:
            how = {end: n for (one, end), n in sorted(world.ended.items()) if one == phase}
            print(f"  {phase:16} {', '.join(f'{n} {end}' for end, n in how.items())}")
        print(f"  {world.compared} answers of neighbours and next requests, all as alone")
        print(f"  held after each, as before: {world.held}")
        print(f"  {world.footprint}")


def of_clients(plan: Path, points: int, seed: int) -> None:
    began_s = time.monotonic()
    with serving(plan, "--placement", "two", "--queue", "8") as server:
        alone = server.post("/v1/audio/speech", **ASKED).content
        before = server.held()
        kept: Footprint | None = None
        ends: Counter[str] = Counter()
        for point in range(points):
            ends[leave(server, Random(f"{seed} {point}"))] += 1
            assert server.held() == before
            assert server.post("/v1/audio/speech", **ASKED).content == alone
            assert server.held() == before
            now = footprint_of(server)
            kept = kept or now
            assert now.is_as(kept), f"{kept} became {now}"
        print(f"{points} clients left in {time.monotonic() - began_s:.0f} s: {dict(ends)}")
        print(f"  held after each, as before: {before}")
        print(f"  {kept}")
        assert server.end() == 0


def footprint_of(server: Server) -> Footprint:
    """What the server holds, once it has noticed that connections are closed."""
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))):
        time.sleep(0.02)
    time.sleep(0.02)
    return footprint(server.process.pid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("processes", "clients"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        plan = compiled(Path(name), *ORPHEUS, deployments={"two": DEPLOYMENT})
        if options.only != "clients":
            of_processes(plan, Path(name), options.points, options.seed)
        if options.only != "processes":
            of_clients(plan, options.points, options.seed)


if __name__ == "__main__":
    main()

"""A server under load for a long time, while clients leave, send nonsense, and workers are killed.

A small model on two ranks. Requests come at random times at 90 % of its capacity, which is measured
again every minute (`soak_pace`): 5 % are left by their clients, 1 % are nonsense, and every five
minutes one of the workers is killed with SIGKILL. Every request must have an answer, byte for byte
the one that its seed had at first, or an error; memory of each process must not grow; and when all
is over the server must hold what it held before: pages, slots, rings, threads, file descriptors,
shared memory.

    python benchmarks/soak.py --minutes 30

Prints what came of the requests, for each process the slope of its own memory with its standard
error (`soak_memory`), and at the end a verdict on each of these. A worker's incarnations are one
process with several beginnings. The exit status is 1 if anything was not as it should be.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
from soak_memory import Held, Verdict
from soak_pace import Pace

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.footprint import Footprint, footprint, ranks
from tests.support.serving import HELLO, Server, compiled, serving

SEEDS = 40
LENGTHS = (20, 40, 80)
LEFT = 0.05
NONSENSE = 0.01
LOAD = 0.9
PATIENCE_S = 300.0
CALIBRATES_S = 30.0
IDLE_S = 11.0
BAD: tuple[tuple[str, bytes], ...] = (
    ("/v1/audio/speech", b"{"),
    ("/v1/audio/speech", b'{"input": "hi", "max_tokens": "many"}'),
    ("/v1/chat/completions", b'{"messages": [3]}'),
    ("/v1/chat/completions", b"\xff\xfe"),
    ("/generate", b'{"inputs": {"prompt": {"file": "/etc/passwd"}}}'),
    ("/v1/audio/transcriptions", b"--x"),
    ("/nowhere", b"{}"),
)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: its route, its body, and whether its answer is a stream of events."""

    route: str
    body: dict[str, Any]

    @property
    def key(self) -> str:
        return json.dumps([self.route, self.body], sort_keys=True)


@dataclass
class Soak:
    """What has come of all requests so far, and what was seen of processes."""

    server: Server
    random: Random
    answers: dict[str, bytes] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def ask(self) -> Ask:
        """A request as clients make them."""
        seed, tokens = self.random.randrange(SEEDS), self.random.choice(LENGTHS)
        shared = {"seed": seed, "max_tokens": tokens}
        messages = [{"role": "user", "content": "hello" * (1 + seed % 3)}]
        kind = self.random.randrange(4)
        if kind == 0:
            return Ask("/v1/audio/speech", {"input": "hello", **shared})
        if kind == 1:
            return Ask("/v1/audio/speech", {"input": "hi", "stream_format": "sse", **shared})
        if kind == 2:
            return Ask("/v1/chat/completions", {"messages": messages, "stream": True, **shared})
        asked = {"inputs": {"prompt": "hello"}, "options": {"max_tokens": tokens}, "seed": seed}
        return Ask("/generate", asked)


def content_of(ask: Ask, body: bytes) -> bytes:
    """What of an answer is the same every time: no ids and no times, and not how it was cut."""
    if ask.body.get("stream_format") == "sse":
        pieces = [event["audio"] for event in _events(body) if event.get("audio")]
        return b"".join(base64.b64decode(piece) for piece in pieces)
    if ask.route != "/v1/chat/completions":
        return body
    choices = [event["choices"] for event in _events(body)]
    texts = [c["delta"].get("content") or "" for choice in choices for c in choice]
    return "".join(texts).encode()


def _events(body: bytes) -> list[dict[str, Any]]:
    lines = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line[6:]) for line in lines]


def is_whole(ask: Ask, body: bytes) -> bool:
    """Whether an answer of status 200 has come to its end without an error."""
    if ask.body.get("stream_format") == "sse":
        return b'"error"' not in body and b"speech.audio.done" in body
    if ask.body.get("stream"):
        return b'"error"' not in body and b"[DONE]" in body
    return True


async def request(soak: Soak, http: httpx.AsyncClient, ask: Ask) -> str:
    """How one request ended; its answer is compared with the first to it."""
    try:
        answer = await http.post(ask.route, json=ask.body)
    except httpx.RemoteProtocolError:
        return "cut"
    except httpx.TimeoutException:
        soak.wrong.append(f"no answer in {PATIENCE_S:.0f} s: {ask.key}")
        return "no answer"
    except httpx.TransportError as error:
        soak.wrong.append(f"{type(error).__name__}: {ask.key}")
        return "no answer"
    if answer.status_code != 200:
        code = answer.json()["error"]["code"]
        soak.codes[code] += 1
        if answer.status_code not in (429, 503):
            soak.wrong.append(f"status {answer.status_code}, {code}: {ask.key}")
        return f"status {answer.status_code}"
    if not is_whole(ask, answer.content):
        return "error event"
    made = content_of(ask, answer.content)
    if soak.answers.setdefault(ask.key, made) != made:
        soak.wrong.append(f"another answer than before: {ask.key}")
        return "wrong"
    return "answered"


async def nonsense(soak: Soak, http: httpx.AsyncClient) -> str:
    route, body = soak.random.choice(BAD)
    answer = await http.post(route, content=body)
    if answer.status_code == 503:
        return "status 503"
    if not 400 <= answer.status_code < 500:
        soak.wrong.append(f"status {answer.status_code} for nonsense at {route}")
        return "nonsense taken"
    return "nonsense refused"


async def one(soak: Soak, http: httpx.AsyncClient) -> None:
    draw, began_s = soak.random.random(), time.monotonic()
    if draw < NONSENSE:
        outcome = await nonsense(soak, http)
    elif draw < NONSENSE + LEFT:
        with contextlib.suppress(TimeoutError, httpx.TransportError):
            asked = soak.ask()
            async with asyncio.timeout(soak.random.random()):
                await http.post(asked.route, json=asked.body)
        outcome = "left"
    else:
        outcome = await request(soak, http, soak.ask())
        if outcome == "answered":
            soak.seconds.append(time.monotonic() - began_s)
    soak.outcomes[outcome] += 1


async def arrive(soak: Soak, http: httpx.AsyncClient, pace: Pace, ends_s: float) -> None:
    """Requests at random times, until the end; returns when all are over."""
    running: set[asyncio.Task[None]] = set()
    while time.monotonic() < ends_s:
        if not pace.rate:
            await asyncio.sleep(0.05)
            continue
        await asyncio.sleep(soak.random.expovariate(pace.rate))
        pace.came += 1
        task = asyncio.create_task(one(soak, http))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)


async def kill(soak: Soak, every_s: float, ends_s: float) -> int:
    """Kills workers in turn; how many. None in the last minute, so that all can come back."""
    killed = 0
    while time.monotonic() + every_s + 60.0 < ends_s:
        await asyncio.sleep(every_s)
        workers = ranks(soak.server.process.pid)
        name = sorted(workers)[killed % len(workers)]
        say(f"{name} (process id {workers[name]}) is killed")
        os.kill(workers[name], signal.SIGKILL)
        killed += 1
    return killed


async def soak_for(server: Server, minutes: float, kill_every_s: float, seed: int) -> bool:
    soak = Soak(server, Random(seed))
    async with client(server) as http:
        pace = Pace(http, await slots(http), LOAD, lambda: one(soak, http))
        for _ in range(60):
            await request(soak, http, soak.ask())
        await pace.begin(CALIBRATES_S)
        say(f"{pace.at_once} at once, {pace.requests_a_second:.1f} requests a second at most")
    before, held = quiet(server), server.held()
    number = server.process.pid
    seen = Held(lambda: {"server": number, **ranks(number)})
    async with client(server) as http:
        ends_s = seen.began_s + 60 * minutes
        soak.outcomes.clear()
        pace.http, pace.one = http, lambda: one(soak, http)
        looking = asyncio.create_task(seen.look())
        killing = asyncio.create_task(kill(soak, kill_every_s, ends_s))
        pacing = asyncio.create_task(pace.keep(ends_s))
        await arrive(soak, http, pace, ends_s)
        killed = await killing
        await pacing
        looking.cancel()
    while server.http.get("/ready").status_code != 200:
        await asyncio.sleep(0.1)
    after = quiet(server)
    verdicts = seen.verdicts(pace.blocks, minutes, sum(soak.outcomes.values()) / minutes)
    report(soak, pace, killed, minutes)
    for verdict in verdicts:
        print(f"memory of {verdict.name} {verdict.word}: {verdict.text}")
    print(f"held before: {before}")
    print(f"held after:  {after}")
    is_clean = server.held() == held and after.is_as(before)
    return judge(soak, pace, killed, verdicts, is_clean)


async def slots(http: httpx.AsyncClient) -> int:
    return int((await http.get("/v1/models")).json()["data"][0]["max_requests"])


def client(server: Server) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=16)
    return httpx.AsyncClient(base_url=server.address, timeout=PATIENCE_S, limits=limits)


def quiet(server: Server) -> Footprint:
    """What is held when nothing is asked: the server ends threads that were idle for a while."""
    time.sleep(IDLE_S)
    server.post("/v1/audio/speech", input="hello", max_tokens=20)
    server.held()
    return footprint(server.process.pid)


def report(soak: Soak, pace: Pace, killed: int, minutes: float) -> None:
    """Prints what has come of it."""
    total = sum(soak.outcomes.values())
    print(f"{minutes:g} minutes, {total} requests, {killed} workers killed")
    for outcome, count in soak.outcomes.most_common():
        print(f"  {count:7} {outcome}")
    print(f"  codes: {dict(soak.codes)}")
    ordered = sorted(soak.seconds)
    p50, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    print(f"  seconds of an answer: p50 {p50:.2f}, p99 {p99:.2f}")
    speeds = [speed / pace.capacity * pace.requests_a_second for _, speed in pace.full]
    print(f"  capacity: {min(speeds):.1f} … {max(speeds):.1f} requests a second")


def judge(soak: Soak, pace: Pace, killed: int, memory: list[Verdict], is_clean: bool) -> bool:
    """Prints a verdict on everything that was asked for; whether all is as it should be."""
    shares = sorted(pace.shares())
    low, high = (shares[int(len(shares) * part)] for part in (0.1, 0.9))
    share = pace.whole_share()
    total = sum(soak.outcomes.values())
    refused = sum(c for o, c in soak.outcomes.items() if o in ("status 429", "status 503"))
    ended = sum(c for o, c in soak.outcomes.items() if o in ("cut", "error event"))
    verdicts = [
        (
            abs(share - LOAD) < 0.05,
            f"load: {100 * share:.0f} % of capacity, in slices of 9 s {100 * low:.0f} … "
            f"{100 * high:.0f} % (10th and 90th of {len(shares)})",
        ),
        (
            soak.outcomes["left"] > 0 and soak.outcomes["nonsense refused"] > 0 and killed > 0,
            f"{100 * soak.outcomes['left'] / total:.1f} % left by their clients, "
            f"{100 * soak.outcomes['nonsense refused'] / total:.1f} % nonsense, "
            f"{killed} workers killed",
        ),
        (
            not soak.wrong,
            f"answers: {soak.outcomes['answered']} as at first, {refused} refused, {ended} ended "
            f"by an error, {len(soak.wrong)} wrong or without an answer",
        ),
        (
            bool(memory) and all(one.is_good for one in memory),
            "memory: " + ", ".join(f"{one.name} {one.word}" for one in memory),
        ),
        (is_clean, "afterwards as before: pages, slots, rings, threads, files, shared memory"),
    ]
    for text in soak.wrong[:20]:
        print(f"WRONG: {text}")
    for is_good, text in verdicts:
        print(f"{'yes' if is_good else 'NO '}  {text}")
    return all(is_good for is_good, _ in verdicts)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--kill-every", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        plan = compiled(Path(name), *HELLO, "2xcpu")
        with serving(plan, "--placement", "2xcpu", "--restarts", "20") as server:
            good = asyncio.run(soak_for(server, options.minutes, options.kill_every, options.seed))
            status = server.end()
    print(f"exit status of the server: {status}")
    return 0 if good and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

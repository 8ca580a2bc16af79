"""A plan from its spec to its clients, in one call: start, load, timeline, HTTP.

    compile   the spec, with `--sizes`, for `--placement`
    cold      a start with no compiled kernel in the cache, then each load in closed waves
    warm      a second start, then one load with a timeline: how busy the device is
    http      `mstarc serve`, the time to its first answer, and the same loads by URL

Each part is told as it comes, and ended with all its processes at its limit; `--parts` runs some
of them. The JSON has what `mstarc bench` found in each.

    python benchmarks/end_to_end.py specs/orpheus.mstar --sizes benchmarks/orpheus_full.yaml \\
        --placement 1xH200 --model orpheus --requests benchmarks/orpheus_requests.yaml \\
        [--batches 1 2 4 8 16 32] [--busy-at 16] [--seconds 6] [--parts cold warm http] [--out FILE]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.serving import ask_for_speech, end_on_signals, free_port, run, server

PARTS = ("cold", "warm", "http")
SPANS = 20


def mstarc(*words: object) -> list[str]:
    return [sys.executable, "-m", "mstarc", *map(str, words)]


def tell_steps(trace: Path) -> None:
    """What the device and the host spent on each step of a timeline, the longest first."""
    spent: dict[tuple[str, str], list[float]] = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] != "X" or event["name"].startswith(("request ", "after ", "to first")):
            continue
        facts = event.get("args", {})
        row = f"device, {facts['bucket']} rows" if "bucket" in facts else "host"
        spent.setdefault((event["name"], row), []).append(event["dur"])
    for (name, row), times in sorted(spent.items(), key=lambda entry: -sum(entry[1]))[:SPANS]:
        print(
            f"  {name:<28} {row:<16} {len(times):>6} times, {sum(times) / 1e3:>8.1f} ms in all, "
            f"median {statistics.median(times):>9.1f} µs",
            flush=True,
        )


class Measurement:
    """One plan and where its files are."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.work: Path = asked.work.absolute()
        self.plan = self.work / "plan"
        cache = self.work / "cache"
        self.environment = {"MSTARC_CACHE": str(cache), "TRITON_CACHE_DIR": str(cache / "triton")}
        self.found: dict[str, Any] = {}

    def compile(self) -> None:
        """Raises CalledProcessError."""
        asked, words = self.asked, [self.asked.spec]
        if asked.sizes is not None:
            words += ["--sizes", asked.sizes]
        subprocess.run(
            mstarc("compile", *words, "--placement", asked.placement, "-o", self.plan), check=True
        )

    def bench(self, part: str, target: str, batches: Sequence[int], *more: object) -> None:
        asked, out = self.asked, self.work / f"{part}.json"
        out.unlink(missing_ok=True)
        words: list[object] = ["bench", target, "--concurrency", ",".join(map(str, batches))]
        words += ["--requests", asked.requests, "--seconds", asked.seconds, "--out", out, *more]
        begun = time.monotonic()
        status = run(mstarc(*words), limit_s=asked.limit, environment=self.environment)
        said = "ended at its limit" if status is None else f"exit status {status}"
        print(f"{part}: {said} after {time.monotonic() - begun:.1f} s", flush=True)
        if out.exists():
            self.found[part] = json.loads(out.read_text())["targets"][0]

    def bench_plan(self, part: str, batches: Sequence[int], *more: object) -> None:
        placed = ["--placement", self.asked.placement, "--no-deterministic"]
        placed += ["--buckets", ",".join(map(str, batches))]
        self.bench(part, str(self.plan), batches, *placed, *more)

    def cold(self) -> None:
        shutil.rmtree(self.work / "cache" / "triton", ignore_errors=True)
        self.bench_plan("cold", self.asked.batches)

    def warm(self) -> None:
        trace = self.work / "trace.json"
        trace.unlink(missing_ok=True)
        self.bench_plan("warm", [self.asked.busy_at], "--trace", trace)
        if trace.exists():
            tell_steps(trace)

    def http(self) -> None:
        asked, port = self.asked, free_port()
        words = ["serve", self.plan, "--placement", asked.placement, "--port", port]
        words += ["--no-deterministic", "--buckets", ",".join(map(str, asked.batches))]
        url, log = f"http://127.0.0.1:{port}", self.work / "serve.log"
        begun = time.monotonic()
        try:
            with server(
                mstarc(*words),
                environment=self.environment,
                ready_url=f"{url}/ready",
                log=log,
                limit_s=asked.limit,
            ) as ready_s:
                ask_for_speech(url, whole=False)
                answered_s = time.monotonic() - begun
                print(
                    f"http: ready after {ready_s:.1f} s, first sound at {answered_s:.1f} s",
                    flush=True,
                )
                self.bench("http", url, asked.batches, "--model", asked.model)
        except (OSError, RuntimeError) as error:
            print(f"http: {error}")
            return
        if "http" in self.found:
            self.found["http"]["facts"] |= {"ready_s": ready_s, "first_answer_s": answered_s}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec", type=Path)
    parser.add_argument("--sizes", type=Path)
    parser.add_argument("--placement", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--busy-at", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=6.0, help="in which waves begin")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a part")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--work", type=Path, default=Path("build/end_to_end"))
    parser.add_argument("--out", type=Path)
    return parser.parse_args(arguments)


def main() -> None:
    end_on_signals()
    asked = parse()
    made = Measurement(asked)
    made.work.mkdir(parents=True, exist_ok=True)
    made.compile()
    for part in asked.parts:
        {"cold": made.cold, "warm": made.warm, "http": made.http}[part]()
    if asked.out is not None:
        asked.out.write_text(json.dumps(made.found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

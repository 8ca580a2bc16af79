"""Qwen3-Omni on GPUs: speech a second, time to first sound, and each part's step beside its floor.

The runtime runs a plan with random weights of the full size. First the decode regions are
replayed alone, at each batch size, beside what the bus needs for the weights that they read. Then
waves of requests ask for text alone: time between tokens; and for speech of a text: audio-seconds
a second, real-time factor, time to first sound, beside what M* publishes for two H200. With random
weights some seeds end their speech early, as no published run did: the next seeds stand in for
them from the next wave on, and the median is of the waves in which fewest ended early. With
`--only parts` requests of a text, a picture, a text, a picture and a text: time to their first
token.

    mstarc compile specs/qwen3_omni.mstar --sizes specs/random/qwen3_omni.yaml \\
        --placement 1xH200 -o build/omni
    python benchmarks/gpu_qwen3_omni.py build/omni --placement 1xH200 [--batches 1 4 8 16 32]
"""

import argparse
import cProfile
import hashlib
import itertools
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.profiler import ProfilerActivity, profile

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.engine.regions import rows_to_capture
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.launch import LocalRanks, Ranks, launched, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.request import Asked, PreparedRequest, prepare
from mstarc_runtime.run_choices import DEFAULT_JOINS, JOINS, WAYS
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.progress import progress_to
from mstarc_runtime.worker import Worker

# Measured on one H200: bytes read a second by a kernel that only reads.
READ_BYTES_A_SECOND = 4.3e12
# Audio-seconds a second that M* publishes for two H200, by requests at once.
PUBLISHED = {1: 11.7, 4: 35.4, 8: 54.2, 16: 87.1, 32: 113.2}
# What Code2Wav makes of F frames: 1920 F - 555 samples, 24,000 a second.
SAMPLES_A_FRAME, SAMPLES_CUT, RATE = 1920, 555, 24000
_SHOWN = 20
# Of each picture: 300 rows of the Thinker.
WIDTH, HEIGHT = 640, 480
TEXT = "Tell me a story about a lighthouse keeper who collects the sounds of the sea, please."


@dataclass(eq=False)
class Clock:
    """When the parts of an answer came."""

    began: float = field(default_factory=time.perf_counter)
    first_text_s: float | None = None
    first_sound_s: float | None = None
    last_text_s: float = 0.0
    ended_s: float = 0.0
    pieces: int = 0
    audio_s: float = 0.0
    failure: RuntimeFailure | None = None
    # Of one alone, whose sound is the same on any placement.
    digest: Any = None

    def text(self, output: str, piece: str) -> None:
        now = time.perf_counter() - self.began
        self.first_text_s = now if self.first_text_s is None else self.first_text_s
        self.last_text_s = now
        self.pieces += 1

    def sound(self, output: str, samples: Any, rate: int) -> None:
        if self.first_sound_s is None:
            self.first_sound_s = time.perf_counter() - self.began
        self.audio_s += len(samples) / rate
        if self.digest is not None:
            self.digest.update(np.ascontiguousarray(samples))

    def value(self, output: str, value: Any) -> None:
        pass

    def finished(self) -> None:
        self.ended_s = time.perf_counter() - self.began

    def failed(self, failure: RuntimeFailure) -> None:
        self.failure = failure

    def cancelled(self) -> None:
        pass


Make = Callable[[int], PreparedRequest]
"""A request of a seed."""


def text_of(number: int) -> str:
    """A text that begins as no other does, and is of another length than the next ones."""
    return f"{number}. {TEXT}{' Softly.' * (number % 5)}"


def wave(ranks: Ranks, make: Make, seeds: Sequence[int]) -> list[Clock]:
    """A request of each seed, asked for at once, to their end."""
    clocks = []
    requests = [make(seed) for seed in seeds]
    for seed, request in zip(seeds, requests, strict=True):
        clock = Clock(digest=hashlib.sha256() if len(seeds) == 1 else None)
        options = {**request.options, "seed": seed}
        ranks.conductor.submit(replace(request, options=options, seed=seed), clock)
        clocks.append(clock)
    run_until_done(ranks)
    for clock in clocks:
        if clock.failure is not None:
            sys.exit("\n".join([clock.failure.message, *clock.failure.notes]))
    return clocks


def ended_early(clocks: Sequence[Clock], frames: int) -> list[bool]:
    """Which requests spoke for less than their frames."""
    whole_s = (SAMPLES_A_FRAME * frames - SAMPLES_CUT) / RATE
    return [clock.audio_s < whole_s - 2 * SAMPLES_A_FRAME / RATE for clock in clocks]


def speech_row(clocks: list[Clock]) -> dict[str, Any]:
    wall_s = max(clock.ended_s for clock in clocks)
    audio_s = sum(clock.audio_s for clock in clocks)
    heard = [clock for clock in clocks if clock.audio_s]
    firsts = [clock.first_sound_s for clock in heard if clock.first_sound_s is not None]
    digests = [clock.digest.hexdigest()[:12] for clock in clocks if clock.digest is not None]
    return {
        **({"sound": digests[0]} if digests else {}),
        "audio_s": round(audio_s, 2),
        "wall_s": round(wall_s, 3),
        "audio_s_per_s": round(audio_s / wall_s, 2),
        "p50_rtf": round(statistics.median(c.ended_s / c.audio_s for c in heard), 4),
        "p50_first_sound_ms": round(statistics.median(firsts) * 1e3, 1),
        "published": PUBLISHED.get(len(clocks)),
    }


def text_row(clocks: list[Clock], tokens: int) -> dict[str, Any]:
    """The time between tokens: of the token that comes first, reading the prompt is left out."""
    spans = [c.last_text_s - (c.first_text_s or 0.0) for c in clocks]
    return {
        "inter_token_ms": round(statistics.median(spans) * 1e3 / max(1, tokens - 1), 4),
        "p50_first_token_ms": round(
            statistics.median(c.first_text_s or 0.0 for c in clocks) * 1e3, 1
        ),
        "tokens_a_second": round(len(clocks) * tokens / max(c.ended_s for c in clocks), 1),
    }


def write_pictures(folder: Path) -> list[Any]:
    """Parts of a request: texts, and two pictures that nothing is in."""
    noise = np.random.default_rng(0)
    names = ["first.png", "second.png"]
    for name in names:
        pixels = noise.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    first, second = ({"image": name} for name in names)
    return ["This is a picture: ", first, " and this is another one: ", second, TEXT]


def parts_row(clocks: list[Clock]) -> dict[str, Any]:
    firsts = [clock.first_text_s or 0.0 for clock in clocks]
    return {
        "p50_first_token_ms": round(statistics.median(firsts) * 1e3, 1),
        "last_first_token_ms": round(max(firsts) * 1e3, 1),
    }


def replayed_ms(worker: Worker, step: DeviceStep, bucket: int, times: int) -> float:
    """Milliseconds of one replay of a captured region, on rows that have just begun."""
    with rows_to_capture(worker, step, bucket) as batch:
        worker.executor.run(worker.rank, batch)
        torch.cuda.synchronize()
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        for _ in range(times):
            worker.executor.run(worker.rank, batch)
        ended.record()
        torch.cuda.synchronize()
        return begun.elapsed_time(ended) / times


def bytes_read(worker: Worker, step: DeviceStep, bucket: int) -> float:
    """Weights that a pass of a decode region must read: of experts the expected number that rows
    which choose evenly want."""
    total = 0.0
    for node in step.nodes:
        engine = worker.parts.kv.get(node)
        if engine is None:
            continue
        module: Any = engine.module
        passes = module.groups if node == "predictor" else 1
        for name, parameter in module.named_parameters():
            size = parameter.numel() * parameter.element_size()
            if "embedding" in name or "projection" in name:
                continue
            if ".experts." in name:
                mixture = module.stack.layers[0].mlp
                share = mixture.router.chosen / mixture.experts_count
                size *= 1 - (1 - share) ** bucket
            elif name == "heads":
                size //= passes  # each pass has a head of its own
            total += size * passes
    return total


def regions(worker: Worker, batches: list[int], times: int) -> list[dict[str, Any]]:
    rows = []
    captured = worker.coverage.captured
    for step in worker.plan.steps:
        if not isinstance(step, DeviceStep):
            continue
        for bucket in batches:
            if (step.id, bucket) not in captured:
                continue
            device_ms = replayed_ms(worker, step, bucket, times)
            floor_ms = bytes_read(worker, step, bucket) / READ_BYTES_A_SECOND * 1e3
            row = {
                "step": step.name,
                "batch": bucket,
                "device_ms": round(device_ms, 3),
                "floor_ms": round(floor_ms, 3),
                "of_floor": round(floor_ms / device_ms, 3),
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--placement", default="1xH200")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--tokens", type=int, default=256, help="of the reply")
    parser.add_argument("--frames", type=int, default=256, help="of speech")
    parser.add_argument("--times", type=int, default=3, help="waves; the median is taken")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--streams", choices=WAYS, default="auto", help="as of `mstarc run`")
    parser.add_argument("--joins", choices=JOINS, default=DEFAULT_JOINS, help="likewise")
    parser.add_argument("--only", choices=["regions", "speech", "text", "parts"], nargs="+")
    parser.add_argument("--profile", action="store_true", help="kernels and host of the first size")
    parser.add_argument("--seconds", type=float, default=1e9, help="no wave begins after these")
    parser.add_argument("--out", type=Path, help="a file for all rows as JSON")
    given = parser.parse_args()
    kinds = given.only or ["regions", "text", "speech"]
    began = time.perf_counter()
    plan = load_plan(given.plan)
    placement = load_placement(plan, given.placement)
    settings = RunSettings(
        cache_dir=read_settings().cache_dir,
        deterministic=False,
        buckets=given.batches,
        streams=given.streams,
        joins=given.joins,
    )
    found: dict[str, Any] = {"torch": torch.__version__, "placement": given.placement}
    options = {"max_tokens": given.tokens, "talker_max_tokens": given.frames}

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - began:.1f} s] {text}", flush=True)

    fresh = itertools.count()

    def asked(number: int, *wants: str) -> PreparedRequest:
        parts = [text_of(number)]
        return prepare(plan, Asked(inputs={"parts": parts}, options=options, wants=wants))

    def read(_seed: int) -> PreparedRequest:
        # Pages of what begins alike are shared, where nobody hears of the rows: nothing does.
        return asked(next(fresh), "reply")

    def spoken(seed: int) -> PreparedRequest:
        return asked(seed, "reply", "speech")

    def asked_of_parts() -> PreparedRequest:
        with TemporaryDirectory() as folder:
            parts = write_pictures(Path(folder))
            short = {"max_tokens": 4}
            asked = Asked(
                inputs={"parts": parts}, options=short, wants=("reply",), folder=Path(folder)
            )
            return prepare(plan, asked)

    with launched(
        plan, placement, settings=settings, progress=progress_to(sys.stderr), say=say
    ) as ranks:
        if isinstance(ranks, LocalRanks) and "regions" in kinds and torch.cuda.is_available():
            found["regions"] = regions(ranks.workers[0], given.batches, given.replays)
            if given.profile:
                show_kernels(ranks.workers[0], given.batches[0], _SHOWN)
        if "parts" in kinds:
            request = asked_of_parts()
            for batch in given.batches:
                # The first ones warm up, and capture what comes again.
                waves = [
                    wave(ranks, lambda _: request, range(batch)) for _ in range(given.times + 3)
                ][3:]
                seen = [parts_row(clocks) for clocks in waves]
                row = {"batch": batch, "waves": len(seen), **_median(seen, "p50_first_token_ms")}
                found.setdefault("parts", []).append(row)
                print("parts", json.dumps(row), flush=True)
        for kind in ("text", "speech"):
            if kind not in kinds:
                continue
            make = read if kind == "text" else spoken
            wave(ranks, make, [0])
            say(f"warmed up for {kind}")
            if given.profile:
                show_host(ranks, make, given.batches[0], _SHOWN)
            for batch in given.batches:
                rows: list[dict[str, Any]] = []
                others: Iterator[int] = itertools.count(batch)
                seeds = list(range(batch))
                for _ in range(given.times):
                    if rows and time.perf_counter() - began > given.seconds:
                        break
                    clocks = wave(ranks, make, seeds)
                    if kind == "text":
                        rows.append(text_row(clocks, given.tokens))
                        continue
                    early = ended_early(clocks, given.frames)
                    rows.append({**speech_row(clocks), "ended_early": sum(early)})
                    pairs = zip(seeds, early, strict=True)
                    seeds = [next(others) if is_early else seed for seed, is_early in pairs]
                key = "audio_s_per_s" if kind == "speech" else "inter_token_ms"
                fewest = min(row.get("ended_early", 0) for row in rows)
                rows = [row for row in rows if row.get("ended_early", 0) == fewest]
                row = {"batch": batch, "waves": len(rows), **_median(rows, key)}
                found.setdefault(kind, []).append(row)
                print(kind, json.dumps(row), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1))


def show_kernels(worker: Worker, batch: int, most: int) -> None:
    """What a replay of each decode region at this size runs, and how long each kernel takes."""
    for step in worker.plan.steps:
        if not isinstance(step, DeviceStep) or (step.id, batch) not in worker.coverage.captured:
            continue
        with rows_to_capture(worker, step, batch) as made:
            worker.executor.run(worker.rank, made)
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as found:
                worker.executor.run(worker.rank, made)
                torch.cuda.synchronize()
        kernels = sorted(found.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
        count, total = sum(k.count for k in kernels), sum(k.self_device_time_total for k in kernels)
        print(f"{step.name}, batch {batch}: {count} kernels, {total / 1e3:.3f} ms", flush=True)
        for kernel in kernels[:most]:
            print(
                f"{kernel.self_device_time_total:>9.0f} us {kernel.count:>6} x {kernel.key[:100]}"
            )


def show_host(ranks: Ranks, make: Make, batch: int, most: int) -> None:
    """Where this process spends a wave."""
    profiler = cProfile.Profile()
    profiler.enable()
    wave(ranks, make, range(batch))
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(most)


def _median(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """The row in the middle by `key`."""
    return sorted(rows, key=lambda row: row[key])[len(rows) // 2]


if __name__ == "__main__":
    main()

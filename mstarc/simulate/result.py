"""What came of a simulation: numbers, and the same as text and as JSON."""

import json
from collections.abc import Sequence
from math import ceil
from typing import Any

from mstarc.codegen.views.amounts import amount_of_seconds
from mstarc.records import dataclass
from mstarc.simulate.parts import Live
from mstarc.simulate.run import Simulation

PERCENTILES = (50, 90, 99)
# Growth of the queue, in requests of those that come, above which a run does not keep up.
GROWTH = 0.05
# A run is long enough if a request is over in this part of it.
SETTLED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUse:
    """One device: the part of the time that it was busy, and rows of each step (mean, most)."""

    device: int
    rank: int
    copy: int
    busy: float
    batches: tuple[tuple[str, float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Times in seconds; percentiles by `PERCENTILES`. `cells` alike parts of the cluster were
    simulated as one, and the numbers are of all of them.

    `growth` is how much the queue grows, as a part of the requests that come; `keeps_up` says that
    it does not. `seconds` is how long the run went on; `has_settled` says whether that was enough.
    """

    model: str
    placement: str
    seconds: float
    requests: int
    finished: int
    requests_per_s: float
    latency_s: tuple[float, ...]
    first_output_s: tuple[float, ...]
    waited_s: tuple[float, ...]
    most_waiting: int
    growth: float
    keeps_up: bool
    has_settled: bool
    ranks: tuple[RankUse, ...]
    cells: int = 1


def result_of(
    simulation: Simulation, *, come: int, until_s: float, is_burst: bool, cells: int
) -> Simulated:
    """The numbers of a run that has ended; `come` requests came."""
    placed = simulation.placed
    done = simulation.finished
    seconds = max((request.done_at for request in done), default=until_s) if is_burst else until_s
    # The first part of a run fills the pipeline: throughput is that of the rest.
    warm = 0.0 if is_burst else seconds / 5
    counted = [request for request in done if request.done_at >= warm]
    rate = len(counted) / (seconds - warm) if seconds > warm else 0.0
    growth = _growth(simulation.queue, come / until_s, seconds) if not is_burst else 0.0
    return Simulated(
        model=placed.program.model,
        placement=placed.placement.name,
        seconds=seconds,
        requests=come * cells,
        finished=len(done) * cells,
        requests_per_s=rate * cells,
        latency_s=_percentiles([r.done_at - r.sample.arrival_s for r in done]),
        first_output_s=_percentiles(
            [r.first_output_at - r.sample.arrival_s for r in done if r.first_output_at >= 0.0]
        ),
        waited_s=_percentiles([r.started_at - r.sample.arrival_s for r in done]),
        most_waiting=simulation.most_waiting * cells,
        growth=growth,
        keeps_up=growth < GROWTH,
        has_settled=is_burst or _has_settled(done, seconds),
        ranks=_ranks(simulation, seconds),
        cells=cells,
    )


def _has_settled(done: Sequence[Live], seconds: float) -> bool:
    """Whether the run was long enough, beside what one request takes, to say what goes on."""
    served = _percentiles([request.done_at - request.started_at for request in done])
    return bool(served) and served[0] < seconds / SETTLED


def _ranks(simulation: Simulation, seconds: float) -> tuple[RankUse, ...]:
    busy = simulation.worker.busy_s
    return tuple(
        RankUse(
            device=process.device,
            rank=process.rank,
            copy=process.copy,
            busy=busy.get(process.device, 0.0) / seconds if seconds else 0.0,
            batches=tuple(
                (
                    name,
                    sum(rows * times for rows, times in sizes.items()) / sum(sizes.values()),
                    max(sizes),
                )
                for name, sizes in sorted(process.batches.items())
            ),
        )
        for process in simulation.processes
    )


def _percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest of the values that so many percent are not above."""
    ordered = sorted(values)
    if not ordered:
        return ()
    return tuple(ordered[max(0, ceil(len(ordered) * p / 100) - 1)] for p in PERCENTILES)


def _growth(queue: Sequence[tuple[float, int, int]], rate: float, seconds: float) -> float:
    """Requests in the system more at the end than in the middle, of those that came meanwhile."""
    half = [(time, size) for time, size, _ in queue if time >= seconds / 2]
    if len(half) < 2 or not rate:
        return 0.0
    # A line through the second half: single requests that come and go do not count.
    mean_time = sum(time for time, _ in half) / len(half)
    mean_size = sum(size for _, size in half) / len(half)
    spread = sum((time - mean_time) ** 2 for time, _ in half)
    slope = sum((time - mean_time) * (size - mean_size) for time, size in half) / spread
    return max(0.0, slope / rate)


# For people and for programs


def result_text(result: Simulated) -> str:
    """The answer for people."""
    verdict = "keeps up" if result.keeps_up else "does not keep up"
    if not result.has_settled:
        verdict = "has not settled: let requests come for longer (--seconds)"
    lines = [
        f"{result.model} on {result.placement}: {result.requests_per_s:.4g} requests a second, "
        f"{verdict}",
        f"{result.finished} of {result.requests} requests are over after "
        f"{amount_of_seconds(result.seconds)}",
        "",
        f"  {'':<22}" + "".join(f"{f'p{p}':>10}" for p in PERCENTILES),
    ]
    for name, values in (
        ("latency", result.latency_s),
        ("to first output", result.first_output_s),
        ("waits to be let in", result.waited_s),
    ):
        known = [amount_of_seconds(value) for value in values] or ["-"] * len(PERCENTILES)
        shown = "".join(f"{text:>10}" for text in known)
        lines.append(f"  {name:<22}{shown}")
    lines += ["", f"  {result.most_waiting} requests waited at most"]
    if not result.keeps_up and result.has_settled:
        lines.append(f"  the queue grows by {100 * result.growth:.0f} % of the requests that come")
    lines += ["", *_rank_lines(result)]
    if result.cells > 1:
        lines += ["", f"{result.cells} alike parts of the cluster were simulated as one"]
    return "\n".join(lines) + "\n"


def _rank_lines(result: Simulated) -> list[str]:
    lines = []
    for use in result.ranks:
        copy = f" copy {use.copy}" if use.copy else ""
        batches = ", ".join(f"{name} {mean:.1f}" for name, mean, _ in use.batches)
        bar = "█" * round(10 * use.busy) + "·" * (10 - round(10 * use.busy))
        where = f"rank {use.rank}{copy}"
        lines.append(f"  {where:<16} {bar} {100 * use.busy:3.0f} %  rows a step: {batches or '—'}")
    return lines


def result_json(result: Simulated) -> str:
    """The same as one JSON object."""

    def by_percentile(values: tuple[float, ...]) -> dict[str, float]:
        return {f"p{p}": value for p, value in zip(PERCENTILES, values, strict=False)}

    document: dict[str, Any] = {
        "schema": 1,
        "model": result.model,
        "placement": result.placement,
        "seconds": result.seconds,
        "requests": result.requests,
        "finished": result.finished,
        "requests_per_s": result.requests_per_s,
        "latency_s": by_percentile(result.latency_s),
        "first_output_s": by_percentile(result.first_output_s),
        "waited_s": by_percentile(result.waited_s),
        "most_waiting": result.most_waiting,
        "growth": result.growth,
        "keeps_up": result.keeps_up,
        "has_settled": result.has_settled,
        "cells": result.cells,
        "ranks": [
            {
                "rank": use.rank,
                "copy": use.copy,
                "device": use.device,
                "busy": use.busy,
                "batches": {name: {"mean": mean, "most": most} for name, mean, most in use.batches},
            }
            for use in result.ranks
        ],
    }
    return json.dumps(document, indent=2) + "\n"

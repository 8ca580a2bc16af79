"""Two frames of a server → what it did between them, by step and by worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mstarc_runtime.top.feed import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRate:
    """Of one step on one worker. `host_us` a run; `job_us` a run of host code in its pool."""

    step: str
    nodes: tuple[str, ...]
    rank: int
    copy: int
    runs_per_s: float
    requests_per_run: float
    host_us: float
    job_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Of a whole server. `busiest` are steps that ran, those that ran most first."""

    seconds: float
    tokens_per_s: float
    sound_per_s: float
    busiest: tuple[StepRate, ...] = ()
    steps_per_s: Mapping[int, float] = field(default_factory=dict)
    host_us: Mapping[int, float] = field(default_factory=dict)


def rates_of(before: Frame, now: Frame) -> Rates:
    """What happened between two frames. A worker that was started again is new."""
    seconds = max(1e-3, now["time_s"] - before["time_s"])
    old = {worker["process"]: worker["steps"] for worker in before["workers"]}
    found: list[StepRate] = []
    steps_per_s: dict[int, float] = {}
    host_us: dict[int, float] = {}
    for worker in now["workers"]:
        process = worker["process"]
        ran = [
            (name, step, _since(old.get(process, {}).get(name), step))
            for name, step in worker["steps"].items()
        ]
        runs = sum(more["runs"] for _, _, more in ran)
        steps_per_s[process] = runs / seconds
        host_us[process] = sum(more["host_us"] for _, _, more in ran) / max(1, runs)
        found += [
            StepRate(
                step=name,
                nodes=tuple(step["nodes"]),
                rank=worker["rank"],
                copy=worker["copy"],
                runs_per_s=more["runs"] / seconds,
                requests_per_run=more["requests"] / more["runs"],
                host_us=more["host_us"] / more["runs"],
                job_us=more["job_us"] / more["runs"],
            )
            for name, step, more in ran
            if more["runs"]
        ]
    totals = {
        name: max(0.0, now["totals"][name] - before["totals"].get(name, 0.0))
        for name in ("tokens", "sound_s")
    }
    # What requests that go on have made is in no total yet.
    for name in totals:
        alive = sum(request[name] for request in now["requests"])
        totals[name] += alive - sum(request[name] for request in before["requests"])
    return Rates(
        seconds=seconds,
        tokens_per_s=max(0.0, totals["tokens"]) / seconds,
        sound_per_s=max(0.0, totals["sound_s"]) / seconds,
        busiest=tuple(sorted(found, key=lambda step: -step.runs_per_s)),
        steps_per_s=steps_per_s,
        host_us=host_us,
    )


def _since(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, float]:
    names = ("runs", "requests", "host_us", "job_us")
    if before is None or before["runs"] > now["runs"]:
        return {name: now[name] for name in names}
    return {name: now[name] - before[name] for name in names}

"""What ranks tell of themselves → families of Prometheus: steps, batches, host time, pages.

A step's `walk` is the place of its machine that it belongs to: machine, state, and the walk that
runs there (`talk.reply.answer`). Counts begin with a worker's process.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from mstarc_runtime.how_it_ran import eager_fallbacks
from mstarc_runtime.messages import Told
from mstarc_runtime.step_costs import pieces_held

_STEP = ("process", "node", "walk", "step")
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MACHINE_STATE_WALK = 3


def walk_of(step: str) -> str:
    """Where a step is.

    >>> walk_of("talk.reply.answer.pass"), walk_of("talk.listen.mel")
    ('talk.reply.answer', 'talk.listen.mel')
    """
    return ".".join(step.split(".")[:_MACHINE_STATE_WALK])


class WorkerMetrics(Collector):
    """The families of all workers, as they were told last."""

    def __init__(self) -> None:
        self._told: Mapping[int, Told] = {}
        self._silent = 0
        self._restarts = 0

    def take(self, told: Mapping[int, Told], *, silent: int, restarts: int) -> None:
        """What the workers have told; how many did not, how many were started again so far."""
        self._told = told
        self._silent = silent
        self._restarts = restarts

    def describe(self) -> list[Metric]:
        """Nothing is read when the registry learns of this."""
        return []

    def collect(self) -> Iterator[Metric]:
        workers = GaugeMetricFamily(
            "mstarc_workers", "Workers by whether they answer", labels=["state"]
        )
        workers.add_metric(["answering"], len(self._told))
        workers.add_metric(["silent"], self._silent)
        yield workers
        restarts = CounterMetricFamily("mstarc_worker_restarts", "Workers started again")
        restarts.add_metric([], self._restarts)
        yield restarts
        blocks = GaugeMetricFamily(
            "mstarc_python_blocks", "Pieces of memory that Python has", labels=["process"]
        )
        blocks.add_metric(["server"], pieces_held())
        for process, told in self._told.items():
            blocks.add_metric([str(process)], json.loads(told.now)["blocks"])
        yield blocks
        yield from self._pages()
        yield from self._steps()
        yield from self._coverage()

    def _pages(self) -> Iterator[Metric]:
        labels = ["process", "node"]
        used = GaugeMetricFamily(
            "mstarc_kv_pages_used", "Pages of KV caches that requests hold", labels=labels
        )
        free = GaugeMetricFamily(
            "mstarc_kv_pages_free", "Pages of KV caches that nobody holds", labels=labels
        )
        starved = GaugeMetricFamily(
            "mstarc_rows_starved", "Rows that wait for pages", labels=["process"]
        )
        counted: dict[str, CounterMetricFamily] = {}
        for process, told in self._told.items():
            now = json.loads(told.now)
            for node, cache in json.loads(told.held)["kv"].items():
                used.add_metric([str(process), node], cache["used_pages"])
                free.add_metric([str(process), node], cache["free_pages"])
            rows = sum(len(places.get("starved", ())) for places in now["rows"].values())
            starved.add_metric([str(process)], rows)
            for name, count in now["counts"].items():
                family = counted.get(name)
                if family is None:
                    family = counted[name] = CounterMetricFamily(
                        f"mstarc_{name}", _COUNTS[name], labels=["process"]
                    )
                family.add_metric([str(process)], count)
        yield from (used, free, starved, *counted.values())

    def _steps(self) -> Iterator[Metric]:
        labels = list(_STEP)
        host = CounterMetricFamily(
            "mstarc_host_seconds", "Host time of steps, the device's not counted", labels=labels
        )
        per_step = GaugeMetricFamily(
            "mstarc_host_microseconds_per_step", "Mean host time of a step", labels=labels
        )
        jobs = CounterMetricFamily(
            "mstarc_host_op_seconds", "Time of host ops in their pool", labels=labels
        )
        requests = CounterMetricFamily(
            "mstarc_step_requests", "Requests in the batches of steps", labels=labels
        )
        sizes = HistogramMetricFamily(
            "mstarc_batch_size", "Requests that ran together in a step", labels=labels
        )
        for process, told in self._told.items():
            for step, cost in json.loads(told.now)["steps"].items():
                if not cost["runs"]:
                    continue
                where = [str(process), ",".join(cost["nodes"]), walk_of(step), step]
                host.add_metric(where, cost["host_us"] / 1e6)
                per_step.add_metric(where, cost["host_us"] / cost["runs"])
                requests.add_metric(where, cost["requests"])
                sizes.add_metric(where, _buckets(cost["sizes"]), cost["requests"])
                if cost["is_host"]:
                    jobs.add_metric(where, cost["job_us"] / 1e6)
        yield from (host, per_step, jobs, requests, sizes)

    def _coverage(self) -> Iterator[Metric]:
        steps = CounterMetricFamily(
            "mstarc_steps",
            "Steps of devices, by whether they were one graph",
            labels=["process", "step", "as"],
        )
        eager = CounterMetricFamily(
            "mstarc_eager_fallbacks",
            "Steps run call by call, by nodes, step of a walk and batch size",
            labels=["process", "node", "walk", "bs", "reason"],
        )
        for process, told in self._told.items():
            runs: Counter[tuple[str, str]] = Counter()
            for tally in told.tallies:
                runs[tally.step, "calls" if tally.reason else "graph"] += tally.runs
            for (step, how), count in runs.items():
                steps.add_metric([str(process), step, how], count)
            for entry in eager_fallbacks(told.tallies):
                nodes = ",".join(entry["nodes"])
                labels = [str(process), nodes, entry["walk"], str(entry["bs"]), entry["reason"]]
                eager.add_metric(labels, entry["runs"])
        yield from (steps, eager)


_COUNTS: Mapping[str, str] = {
    "kv_preemptions": "Contexts of requests that gave their pages to older requests",
    "kv_pages_set_aside": "Pages that went to host memory for that",
    "kv_pages_brought_back": "Pages that came back from there",
    "kv_evictions": "Kept beginnings of prompts that were given up for their pages",
    "prompt_rows": "Rows of prompts that may share pages",
    "prompt_rows_shared": "Of these, rows that another request had read already",
    "rows_attended_together": "Rows of prompts, a layer, that requests of a call attended together",
    "rows_read_together": "Of these, rows that were read, once for several requests",
    "kernels_compiled": "Kernels that were compiled while requests waited for them",
    "kernel_compile_milliseconds": "Milliseconds that this took",
}


def _buckets(sizes: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    """Runs by size → cumulative buckets."""
    counts = {int(size): runs for size, runs in sizes.items()}
    found: list[tuple[str, float]] = [
        (str(most), float(sum(runs for size, runs in counts.items() if size <= most)))
        for most in _SIZES
    ]
    return [*found, ("+Inf", float(sum(counts.values())))]

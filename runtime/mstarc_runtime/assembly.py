"""Puts a rank together: the plan's modules, a device, an executor, a policy → a `Worker`.

The same for a rank in a process of its own and for one beside the conductor.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from mstarc_runtime.attention.makers import BackendMaker
from mstarc_runtime.engine import later_sizes
from mstarc_runtime.engine.builder import RankBuilder, RankSettings
from mstarc_runtime.engine.coverage import require_graphs
from mstarc_runtime.engine.device_choices import choices_on
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.engine.host import HostEngine, HostPool
from mstarc_runtime.engine.implementations import Implementations
from mstarc_runtime.engine.late_kernels import LATE_KERNELS
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.kvcache.levels import explained
from mstarc_runtime.live import RankPlan
from mstarc_runtime.loader import LoadedPlan, PlacementFacts, ProcessFacts, load_rank
from mstarc_runtime.peer_memory import PeerMemory
from mstarc_runtime.plan_api import Again, DeviceStep, Step
from mstarc_runtime.prompts import sharing_nodes, without_sharing
from mstarc_runtime.run_choices import (
    DEFAULT_JOINS,
    DEFAULT_THREADS,
    HIGH_WATER_MARK,
    Cascade,
    Joins,
    Way,
)
from mstarc_runtime.trace import HostTrace, TracedExecutor
from mstarc_runtime.transport.collectives import ProcessGroup
from mstarc_runtime.transport.mailbox import Mailbox
from mstarc_runtime.weights.progress import Progress
from mstarc_runtime.worker import Worker
from mstarc_schedule.batching import DEFAULT_TILE_ROWS, BatchPolicy, default_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a run decides beside the plan. `deterministic` None means: where all ranks are CPUs.

    `threads` is a rank's number of threads for tensor arithmetic, the same on every rank and for
    every placement, since sums may depend on it. `high_water_mark` is the most messages under way
    from one process to another. `sources` replaces weights of nodes. Without
    `share_prompts` no request uses pages that another has filled; `cascade` says where such pages
    are read once for several requests. `buckets` are the sizes that
    batches of regions are padded to, in place of the plan's. With `require_graphs` a rank that
    would run a region call by call does not start; `eager` are regions that are to be run so.
    `streams` says whether GPUs write into one another's memory (`peer_memory`), `joins` whether
    those of shards do to put together what they have made (`transport.inboxes`). With
    `trace` ranks note what they do when.
    """

    cache_dir: Path
    deterministic: bool | None = None
    threads: int = DEFAULT_THREADS
    tile_rows: int = DEFAULT_TILE_ROWS
    high_water_mark: int = HIGH_WATER_MARK
    sources: Mapping[str, str] = field(default_factory=dict)
    buckets: Sequence[int] = ()
    eager: Sequence[str] = ()
    require_graphs: bool = False
    share_prompts: bool = True
    cascade: Cascade = "auto"
    streams: Way = "auto"
    joins: Joins = DEFAULT_JOINS
    trace: bool = False

    def policy(self, placement: PlacementFacts) -> BatchPolicy:
        all_cpu = all(kind == "cpu" for kind in placement.devices.values())
        usual = default_policy(all_cpu=all_cpu)
        deterministic = usual.deterministic if self.deterministic is None else self.deterministic
        return BatchPolicy(
            deterministic=deterministic,
            tile_rows=self.tile_rows,
            token_budget=placement.prefill_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What tests and benchmarks put in place of the usual."""

    implementations: Mapping[str, Any] = field(default_factory=dict)
    executor: Executor | None = None
    attention: BackendMaker | None = None
    dtype: torch.dtype | None = None
    stretch: int | None = None


def make_worker(
    plan: LoadedPlan,
    placement: PlacementFacts,
    facts: ProcessFacts,
    *,
    mailbox: Mailbox,
    pool: HostPool,
    settings: RunSettings,
    progress: Progress,
    extras: Extras | None = None,
    implementations: Implementations | None = None,
    sockets: Path | None = None,
    first_request: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Worker:
    """A rank with its weights loaded. Fails with MS9008, MS9011, MS9013 or MS91xx."""
    extras = extras or Extras()
    device = device_of(placement.devices[facts.device], facts)
    rank_class, planned = load_rank(plan, placement.name, facts.module)
    steps = with_buckets(planned, settings.buckets, placement.max_requests)
    steps = outside_regions(steps, settings.eager)
    steps = steps if settings.share_prompts else without_sharing(steps)
    if extras.stretch is not None:
        steps = with_stretch(steps, extras.stretch)
    usual = choices_on(device, levels=settings.cascade != "off")
    executor = extras.executor or usual.executor
    trace = HostTrace() if settings.trace else None
    if trace is not None:
        executor = TracedExecutor(executor, trace, device)
    rank_settings = RankSettings(
        slots=placement.max_requests,
        max_rows=placement.max_tokens,
        device=device,
        dtype=extras.dtype or (torch.float32 if device.type == "cpu" else torch.bfloat16),
        captured=any(isinstance(step, DeviceStep) and executor.captures(step) for step in steps),
        streams={name: route.capacity for name, route in placement.streams.items()},
        cascade=settings.cascade,
        sharing=sharing_nodes(steps),
    )
    found = implementations or make_implementations(settings, progress, extras)

    joined: list[ProcessGroup] = []

    def connect(name: str, *, index: int, count: int) -> ProcessGroup:
        assert sockets is not None, "ranks of a group are processes"
        joined.append(
            ProcessGroup(
                sockets,
                name,
                index=index,
                count=count,
                device=device,
                is_direct=settings.joins == "direct",
                say=lambda text: say(f"{facts}: {text}"),
            )
        )
        for group in joined if len(joined) > 1 else ():
            group.share_device()
        return joined[-1]

    def build(worker: Worker) -> RankBuilder:
        return RankBuilder(
            rank_settings,
            found,
            listener=worker,
            courier=worker.courier,
            groups=worker.groups,
            attention=extras.attention or usual.attention,
        )

    began = time.monotonic()
    worker = Worker(
        RankPlan(
            rank=facts.rank,
            process=facts.process,
            rank_class=rank_class,
            steps=steps,
            slots=placement.max_requests,
            spec=plan.spec,
            is_alone=len(placement.processes) == 1,
            producers={name: route.producers for name, route in placement.streams.items()},
            peers=_peers(placement, facts),
        ),
        mailbox=mailbox,
        pool=pool,
        executor=executor,
        policy=settings.policy(placement),
        device=device,
        connect=connect,
        build=build,
        first_request=first_request,
    )
    worker.coverage.asked_eager |= {
        step.id
        for before, step in zip(planned, steps, strict=True)
        if isinstance(step, DeviceStep)
        and isinstance(before, DeviceStep)
        and step.region != before.region
    }
    loaded = time.monotonic()
    peers = worker.peer_memory = PeerMemory(worker, placement, settings.streams)
    peers.agree()
    for line in peers.said:
        say(f"{facts}: {line}")
    # Sizes that somebody names, and those that must be there, are there from the beginning.
    if not settings.buckets and not settings.require_graphs:
        worker.later.put_off(worker)
    graphs = executor.capture(worker)
    first = worker.start_s.get("first runs", 0.0)
    if graphs and first < later_sizes.QUICK_S * graphs:
        graphs += worker.later.capture_quick(worker)
    captured = time.monotonic()
    worker.trace = trace
    first = worker.start_s.get("first runs", 0.0)
    worker.start_s["weights"] = loaded - began
    worker.start_s["capture"] = captured - loaded - first
    say(f"{facts}: weights ready after {loaded - began:.1f} s")
    for name in sorted(rank_settings.sharing & worker.parts.kv.keys()):
        if device.type == "cuda":
            layout = worker.parts.kv[name].cache.layout
            say(f"{facts}: `{name}`: {explained(layout, settings.cascade)}")
    if graphs:
        compiled = f" (and first runs, which compile kernels, {first:.1f} s)" if first else ""
        later = f"; {worker.later.count} more while nobody is served" if worker.later.count else ""
        seconds = captured - loaded - first
        say(f"{facts}: {graphs} graphs captured in {seconds:.1f} s{compiled}{later}")
    if settings.require_graphs:
        require_graphs(worker)
    if device.type == "cuda":
        LATE_KERNELS.watch()
    return worker


def with_buckets(
    steps: Sequence[Step], buckets: Sequence[int], max_requests: int
) -> Sequence[Step]:
    """The steps, those of regions with these sizes: ascending, each once, none above what can run.

    A step that only one size suits keeps it.
    """
    if not buckets:
        return steps
    sizes = tuple(sorted({min(size, max_requests) for size in buckets}))
    return tuple(
        replace(step, buckets=sizes)
        if isinstance(step, DeviceStep) and step.region is not None and len(step.buckets) > 1
        else step
        for step in steps
    )


def with_stretch(steps: Sequence[Step], stretch: int) -> Sequence[Step]:
    """The steps, those that run several passes at a look of the host with so many."""
    return tuple(
        replace(step, stretch=stretch)
        if isinstance(step, DeviceStep)
        and isinstance(step.then, Again)
        and step.then.first == step.id
        and step.rows in ("one", "fixed")
        and not step.sure
        else step
        for step in steps
    )


def outside_regions(steps: Sequence[Step], eager: Sequence[str]) -> Sequence[Step]:
    """The steps, those of these regions in none."""
    return tuple(
        replace(step, region=None)
        if isinstance(step, DeviceStep) and step.region in eager
        else step
        for step in steps
    )


def _peers(placement: PlacementFacts, facts: ProcessFacts) -> dict[int, int]:
    """The process of each rank that exists in the same copy."""
    return {other.rank: other.process for other in placement.processes if other.copy == facts.copy}


def make_implementations(
    settings: RunSettings, progress: Progress, extras: Extras | None = None
) -> Implementations:
    """Where a process finds classes and weights."""
    return Implementations(
        cache_dir=settings.cache_dir,
        progress=progress,
        extra=extras.implementations if extras else {},
        sources=settings.sources,
    )


def make_via(plan: LoadedPlan, implementations: Implementations) -> dict[str, HostEngine]:
    """The host nodes that make text of tokens, for the conductor."""
    return {
        name: HostEngine(name, implementations.host(name, node.impl, node.weights))
        for name, node in plan.via_nodes.items()
    }


def use_threads(count: int) -> None:
    """Fixes this process's threads for tensor arithmetic."""
    torch.set_num_threads(count)
    torch.set_grad_enabled(False)


def device_of(kind: str, facts: ProcessFacts) -> torch.device:
    """Where a process computes. Fails with MS9011."""
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available() or torch.cuda.device_count() <= facts.device:
        raise RuntimeFailure(
            "MS9011",
            f"rank {facts.rank} of the placement needs a `{kind}` of number {facts.device}, "
            "and there is none",
            notes=[f"this machine has {torch.cuda.device_count()} CUDA devices"],
            helps=["use a placement on `cpu`, or compile with `--placement cpu`"],
        )
    # Streams, graphs and kernels are those of a thread's present device.
    torch.cuda.set_device(facts.device)
    return torch.device("cuda", facts.device)


def host_threads() -> int:
    """Threads for host code: it waits for files and subprocesses more than it computes."""
    return min(4, (os.cpu_count() or 1) + 1)

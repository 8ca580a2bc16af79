"""Pictures, rollouts and actions on a GPU: BAGEL, V-JEPA 2-AC and π0.5, full size, random weights.

Each measurement is of whole requests through a compiled plan and the runtime, from the request's
admission until its last output has come, and is the median of `--repeats`. Host nodes hand over
tensors that are ready: what is decoded from files is not counted. `device` is what the steps take
on the device, the rest of a request is the runtime's. `floor` is what the arithmetic needs at 790
TFLOP/s, or the weights and what is attended at 4.3 TB/s, whichever is longer.

    for model in bagel vjepa2_ac pi05; do
      mstarc compile specs/$model.mstar --sizes specs/random/$model.yaml --placement 1xH200 \\
          -o build/$model
    done
    for how in tf32 fp16 fp16x3 bf16x6; do
      mstarc compile specs/pi05.mstar --sizes benchmarks/pi05_$how.yaml --placement 1xH200 \\
          -o build/pi05_$how
    done
    mstarc compile benchmarks/bagel_apart_2gpu.yaml --sizes specs/random/bagel.yaml \\
        -o build/bagel_apart
    python benchmarks/gpu_models.py vjepa2_ac=build/vjepa2_ac --peer vjepa2   # Meta's checkout
    python benchmarks/gpu_models.py pi05=build/pi05_tf32 pi05=build/pi05_fp16x3 pi05=build/pi05 \\
        bagel=build/bagel
    python benchmarks/gpu_models.py bagel=build/bagel_apart --part draw       # on two GPUs
"""

import argparse
import gc
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpu_model_requests as requests
import torch
from answers import Timed

from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.engine.device_choices import choices_on
from mstarc_runtime.engine.eager import Executor
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.models.pi05 import VisionTower
from mstarc_runtime.plan_api import DeviceStep, Rank
from mstarc_runtime.process_ranks import ProcessRanks
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.weights.progress import progress_to
from mstarc_runtime.worker import Worker

# Measured on one H200: dense bfloat16 products, and bytes that a kernel reads.
FLOPS_A_SECOND = 790e12
BYTES_A_SECOND = 4.3e12


@dataclass(slots=True)
class TimedExecutor:
    """Notes when the device begins and ends each run, and waits for nothing."""

    runs: Executor
    events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)

    def captures(self, step: DeviceStep) -> bool:
        return self.runs.captures(step)

    def capture(self, worker: Worker) -> int:
        return self.runs.capture(worker)

    def run(self, rank: Rank, batch: StepBatch) -> None:
        begun = torch.cuda.Event(enable_timing=True)
        ended = torch.cuda.Event(enable_timing=True)
        begun.record()
        self.runs.run(rank, batch)
        ended.record()
        self.events.append((batch.step.name, begun, ended))

    def device_ms(self) -> Counter[str]:
        """Milliseconds by step since the last call."""
        torch.cuda.synchronize()
        spent: Counter[str] = Counter()
        for name, begun, ended in self.events:
            spent[name] += begun.elapsed_time(ended)
        self.events.clear()
        return spent


class NoExecutor:
    """For ranks that are processes of their own: nobody looks at their steps."""

    def device_ms(self) -> Counter[str]:
        return Counter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Seconds of one wave of requests, and milliseconds on the device by step."""

    wall_s: float
    first_s: float
    device_ms: Counter[str]
    heard: Sequence[Timed]


class Served:
    """A plan on one GPU, or on those that its placement names."""

    def __init__(self, folder: Path, buckets: Sequence[int], frontends: Mapping[str, Any]) -> None:
        plan = load_plan(folder)
        (name,) = plan.placements
        placement = load_placement(plan, name)
        self.plan = plan
        self.name = folder.name
        usual = choices_on(torch.device("cuda", 0))
        self.executor: TimedExecutor | NoExecutor = NoExecutor()
        self.ranks: LocalRanks | ProcessRanks
        begun = time.perf_counter()
        given: dict[str, Any] = {
            "settings": RunSettings(cache_dir=Path("build/cache"), buckets=buckets),
            "progress": progress_to(sys.stderr),
            "say": lambda text: print(text, file=sys.stderr, flush=True),
        }
        if len(placement.processes) > 1:
            self.ranks = ProcessRanks(plan, placement, start_timeout_s=120.0, **given)
        else:
            self.executor = TimedExecutor(usual.executor)
            extras = Extras(executor=self.executor, implementations=frontends)
            self.ranks = LocalRanks(plan, placement, extras=extras, **given)
        took = time.perf_counter() - begun
        print(f"== {folder.name} on {name}, ready after {took:.1f} s; {usual.said}", flush=True)

    @property
    def worker(self) -> Worker:
        assert isinstance(self.ranks, LocalRanks)
        return self.ranks.workers[0]

    def close(self) -> None:
        self.ranks.close()

    def ask(self, wave: Sequence[PreparedRequest]) -> Took:
        """All of a wave at once."""
        heard = [Timed() for _ in wave]
        torch.cuda.synchronize()
        self.executor.device_ms()
        begun = time.perf_counter()
        for request, listener in zip(wave, heard, strict=True):
            self.ranks.conductor.submit(request, listener, on_tokens=listener.count)
        run_until_done(self.ranks)
        for each in heard:
            each.check()
        firsts = [each.first_s for each in heard if each.first_s is not None]
        return Took(
            wall_s=max(each.ended_s for each in heard) - begun,
            first_s=statistics.median(firsts) - begun,
            device_ms=self.executor.device_ms(),
            heard=heard,
        )

    def median(
        self,
        wave: Sequence[PreparedRequest],
        repeats: int,
        warm_up: Sequence[PreparedRequest] | None = None,
    ) -> Took:
        """Of so many, after two that warm up: the second time calls by shape are captured."""
        for _ in range(2):
            self.ask(wave if warm_up is None else warm_up)
        took = sorted((self.ask(wave) for _ in range(repeats)), key=lambda each: each.wall_s)
        return took[len(took) // 2]

    def profile(self, wave: Sequence[PreparedRequest], rows: int = 24) -> None:
        """Prints which kernels a wave spends its time in."""
        from torch.profiler import ProfilerActivity, profile

        self.ask(wave)
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
            self.ask(wave)
        averages = [e for e in found.key_averages() if e.self_device_time_total > 0]
        averages.sort(key=lambda event: -event.self_device_time_total)
        total = sum(event.self_device_time_total for event in averages)
        print(f"kernels: {total / 1e3:.2f} ms", flush=True)
        for event in averages[:rows]:
            spent = event.self_device_time_total
            print(f"{spent / 1e3:10.3f} ms {spent / total:6.1%} {event.count:6d} {event.key[:110]}")


def floor_s(*, flops: float = 0.0, read: float = 0.0) -> float:
    return max(flops / FLOPS_A_SECOND, read / BYTES_A_SECOND)


def weights_of(module: torch.nn.Module) -> int:
    """Numbers in matrices that every row passes."""
    return sum(p.numel() for p in module.parameters() if p.dim() > 1)


def show(name: str, took: Took, floor: float, steps: int = 6) -> None:
    device = sum(took.device_ms.values())
    parts = ", ".join(
        f"{n.partition('.')[2]} {ms:.2f}" for n, ms in took.device_ms.most_common(steps)
    )
    print(
        f"{name}: {took.wall_s * 1e3:.2f} ms, device {device:.2f} ms, floor {floor * 1e3:.2f} ms "
        f"({floor / took.wall_s:.1%}); {parts}",
        flush=True,
    )


def vjepa2_ac(served: Served, options: argparse.Namespace) -> None:
    engine = served.worker.parts.kv["dynamics"]
    encoder = weights_of(served.worker.parts.stateless["video_encoder"].module)
    weights = weights_of(engine.module)
    rows, layout = 258, engine.cache.layout
    ours: dict[int, float] = {}
    for horizon in options.horizons:
        wave = [requests.rollout(served.plan, horizon)]
        took = served.median(wave, options.repeats)
        seen = sum(rows * rows * (step + 1) for step in range(horizon))
        width = layout.kv_heads * layout.head_dim
        flops = 2.0 * (weights * rows * horizon + encoder * 256)
        flops += 4.0 * layout.layers * width * seen
        read = 2.0 * (weights * horizon + encoder) + 4.0 * layout.layers * width * seen / rows
        show(f"rollout of {horizon}", took, floor_s(flops=flops, read=read))
        ours[horizon] = took.wall_s
        if options.profile and horizon == options.horizons[0]:
            served.profile(wave)
    if options.peer is not None:
        from peers import vjepa2_ac as peer

        dtypes = [getattr(torch, name) for name in options.peer_dtypes]
        theirs = peer.measure(options.peer, options.horizons, options.repeats, dtypes)
        for horizon, seconds in theirs.items():
            print(f"rollout of {horizon}: {seconds / ours[horizon]:.1f} times as fast as Meta's")


def pi05(served: Served, options: argparse.Namespace) -> None:
    parts = served.worker.parts
    experts = parts.kv["llm"].module
    tower = weights_of(parts.stateless["vit_encoder"].module)
    reads = sum(p.numel() for n, p in experts.named_parameters() if n.startswith("reading"))
    acts = weights_of(experts) - reads
    for batch in options.batches:
        wave = [requests.act(served.plan, seed) for seed in range(batch)]
        took = served.median(wave, options.repeats)
        prefix = 768 + requests.ORDER_ROWS
        flops = 2.0 * batch * (tower * 768 + reads * prefix + acts * 50 * 10)
        read = 4.0 * tower + 2.0 * (reads + acts * 10)
        show(f"{batch} x 3 cameras, 10 steps", took, floor_s(flops=flops, read=read))
        print(f"    {50 * batch / took.wall_s:.0f} actions a second")
    _compare_precisions(parts.stateless["vit_encoder"].module)
    if options.profile:
        served.profile([requests.act(served.plan, 0)])


def _compare_precisions(tower: torch.nn.Module) -> None:
    """Prints how far the tower's rows are from those in float64, by what its products are."""
    assert isinstance(tower, VisionTower)
    context = StatelessContext(batch=1, device=torch.device("cuda", 0))
    px = torch.rand(1, 3, 3, 224, 224, device="cuda") * 2 - 1
    precision, dtype, rows = tower.precision, tower.out_dtype, {}
    tower.out_dtype = torch.float32
    for tower.precision in ("ieee", "fp16x3", "bf16x6", "tf32", "fp16"):
        rows[tower.precision] = tower.encode(context, px)
    exact = deepcopy(tower).double()
    exact.precision, exact.out_dtype = "ieee", torch.float64
    wanted = exact.encode(context, px)
    tower.precision, tower.out_dtype = precision, dtype
    for name, found in rows.items():
        print(f"    tower, {name}: {_error(found, wanted):.1e} from float64", flush=True)
    print(f"    tower, tf32: {_error(rows['tf32'], rows['ieee']):.1e} from ieee")


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def bagel(served: Served, options: argparse.Namespace) -> None:
    if options.part in ("draw", "all"):
        _draw(served, options)
    if options.part in ("understand", "all"):
        _understand(served, options)


def _draw(served: Served, options: argparse.Namespace) -> None:
    rows, layers, width, inner = 4098, 28, 3584, 18944
    heads, kv_heads, head_dim = 28, 4, 128
    a_layer = width * (2 * heads + 2 * kv_heads) * head_dim + 3 * width * inner
    per_row = 2.0 * layers * a_layer
    a_pass = per_row * rows + 4.0 * layers * heads * head_dim * rows * (rows + requests.PROMPT_ROWS)
    for name, given in (
        ("interval 0.4 .. 1", {}),
        ("three branches always", {"image_scale": 2.0, "guide_from": 0.0}),
    ):
        wave = [requests.draw(served.plan, options.steps, **given)]
        passes = requests.branches(options.steps, **given)
        few = [requests.draw(served.plan, 3, **given)]
        took = served.median(wave, options.draws, few)
        show(f"1024 x 1024, {options.steps} steps, {name}", took, floor_s(flops=a_pass * passes))
        rate = a_pass * passes / took.wall_s
        print(f"    {passes} passes, {rate / 1e12:.0f} TFLOP/s, {rate / FLOPS_A_SECOND:.1%}")
        if options.profile and isinstance(served.ranks, LocalRanks):
            served.profile([requests.draw(served.plan, 4, **given)])


def _understand(served: Served, options: argparse.Namespace) -> None:
    weights = served.worker.parts.kv["llm"].module
    words = 2.0 * sum(
        p.numel() for n, p in weights.named_parameters() if ".words." in n or n.startswith("head")
    )
    for batch in options.batches:
        wave = [requests.understand(served.plan, seed, options.tokens) for seed in range(batch)]
        took = served.median(wave, options.repeats)
        tokens = sum(each.tokens for each in took.heard)
        rate = (tokens - batch) / (took.wall_s - took.first_s)
        show(f"understanding x {batch}", took, floor_s(read=words * options.tokens))
        print(f"    first token after {took.first_s:.3f} s, {rate:.0f} tokens a second behind it")
    if options.profile:
        served.profile([requests.understand(served.plan, 0, 32)])


MODELS: Mapping[str, Callable[[Served, argparse.Namespace], None]] = {
    "bagel": bagel,
    "pi05": pi05,
    "vjepa2_ac": vjepa2_ac,
}


def _measured(
    model: str, folder: Path, buckets: Sequence[int], options: argparse.Namespace
) -> bool:
    """Measures one plan; whether nothing failed, which is printed. The others go on."""
    try:
        served = Served(folder, buckets, requests.FRONTENDS)
        MODELS[model](served, options)
        served.close()
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plans", nargs="+", metavar="MODEL=PLAN")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--draws", type=int, default=5, help="repeats of a whole drawing")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--horizons", type=int, nargs="+", default=[4, 15, 30])
    parser.add_argument("--steps", type=int, default=50, help="of a drawing")
    parser.add_argument("--tokens", type=int, default=128, help="of an answer")
    parser.add_argument("--part", choices=("draw", "understand", "all"), default="all")
    parser.add_argument("--profile", action="store_true", help="also say which kernels take long")
    parser.add_argument("--peer", type=Path, help="a checkout of facebookresearch/vjepa2")
    parser.add_argument("--peer-dtypes", nargs="+", default=["bfloat16", "float32"])
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}", flush=True)
    failed = False
    for model, _, folder in (given.partition("=") for given in options.plans):
        buckets = sorted({1, *options.batches}) if model != "vjepa2_ac" else [1]
        failed = not _measured(model, Path(folder), buckets, options) or failed
        gc.collect()
        torch.cuda.empty_cache()
    sys.exit(failed)


if __name__ == "__main__":
    main()

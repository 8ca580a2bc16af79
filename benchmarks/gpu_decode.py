"""Orpheus' decode region on a GPU, as the compiler wrote it: ms a step, and what the host does.

The runtime's own worker runs a plan of full-size Orpheus with random weights. The region's body,
`speak_decode_pass` of the generated rank module, is run unchanged: first call by call, then
captured once as a CUDA graph and replayed. `floor` is what the bus needs for the weights and the
rows that are attended; `busy` is the device's share of the wall time; what a step waits for the
device is taken out of the host's time.

    mstarc compile specs/orpheus.mstar --sizes benchmarks/orpheus_full.yaml \\
        --placement 1xH200 -o build/orpheus_h200
    python benchmarks/gpu_decode.py build/orpheus_h200 [--batches 1 8 16 32] [--eager] [--json]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mstarc_runtime.assembly import Extras, RunSettings, make_worker, use_threads
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.cuda_graph import CudaGraphExecutor
from mstarc_runtime.engine.device_choices import choices_on
from mstarc_runtime.engine.eager import EagerExecutor, Executor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.engine.pass_log import PassesRead
from mstarc_runtime.flights import Flights
from mstarc_runtime.frames import Shape
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.messages import Failed, Start
from mstarc_runtime.plan_api import DeviceStep, Rank
from mstarc_runtime.transport.local import LocalMailbox, LocalNetwork
from mstarc_runtime.transport.mailbox import CONDUCTOR, Parcel
from mstarc_runtime.weights.progress import progress_to
from mstarc_runtime.worker import Worker

PLACEMENT = "1xH200"
DECODE = "speak.decode.pass"
WARM_UP_STEPS = 20
MAX_TOKENS = 4096
# Measured on one H200: bytes read a second by a kernel that only reads.
READ_BYTES_A_SECOND = 4.3e12


class TimedExecutor:
    """Notes when the device begins and ends each run, and waits for nothing."""

    def __init__(self, runs: Executor) -> None:
        self._runs = runs
        self.events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.beside: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def captures(self, step: DeviceStep) -> bool:
        return self._runs.captures(step)

    def capture(self, worker: Worker) -> int:
        return self._runs.capture(worker)

    def run(self, rank: Rank, batch: StepBatch) -> None:
        pair = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        pair[0].record()
        self._runs.run(rank, batch)
        pair[1].record()
        (self.events if batch.step.name == DECODE else self.beside).append(pair)


class Waits:
    """How long the host waited for the device, wherever it does."""

    def __init__(self) -> None:
        self.seconds = 0.0
        places = ((StepBatch, "end_read_back"), (Flights, "await_any"), (PassesRead, "wait"))
        for kind, name in places:
            setattr(kind, name, self._timed(getattr(kind, name)))

    def _timed(self, wait: Callable[[Any], None]) -> Callable[[Any], None]:
        def timed(waiting: Any) -> None:
            start = time.perf_counter()
            wait(waiting)
            self.seconds += time.perf_counter() - start

        return timed


def begin(worker: Worker, slot: int, steps: int, rows: int) -> None:
    """Sends a request whose prompt has about `rows` rows: a byte is one."""
    options = {"voice": "tara", "temperature": 0.6, "max_tokens": steps, "seed": slot}
    placement_steps = {"speak": 0, "vocoder": 4}
    worker._handle(
        Parcel(
            Start(
                slot=slot,
                request=slot,
                where={0: 0},
                machines=tuple(placement_steps.items()),
                bounds={"speak.decode": steps},
                options=options,
                inputs={
                    "prompt": Shape("plain", plain=f"request {slot} ".ljust(max(rows, 12), "."))
                },
                seed=slot,
            ),
            (),
        )
    )


def refuse_failures(conductor: LocalMailbox) -> None:
    """Takes what the worker has sent; a request that failed ends the measurement."""
    while (parcel := conductor.receive()) is not None:
        if isinstance(parcel.message, Failed):
            sys.exit(f"{parcel.message.message}\n" + "\n".join(parcel.message.notes))


def measure(
    worker: Worker,
    executor: TimedExecutor,
    waits: Waits,
    conductor: LocalMailbox,
    batch: int,
    options: argparse.Namespace,
) -> dict[str, float]:
    """Means over the decode steps in which all `batch` requests take part."""
    rows = options.rows - WARM_UP_STEPS - 2 * batch - options.steps // 2
    for slot in range(batch):
        begin(worker, slot, MAX_TOKENS, rows)
    executor.events.clear()
    executor.beside.clear()
    start, seen, waited = 0.0, 0, 0.0
    while len(executor.events) < seen + options.steps or not seen:
        if not seen and len(executor.events) >= WARM_UP_STEPS + 2 * batch:
            torch.cuda.synchronize()
            seen, waited, start = len(executor.events), waits.seconds, time.perf_counter()
            executor.beside.clear()
        did = worker.turn()
        refuse_failures(conductor)
        assert did, "the requests ended before enough steps were measured"
    torch.cuda.synchronize()
    wall_s = time.perf_counter() - start
    device_ms = [begun.elapsed_time(ended) for begun, ended in executor.events[seen:]]
    beside_ms = [begun.elapsed_time(ended) for begun, ended in executor.beside]
    lengths = worker.parts.kv["lm"].cache.tables.lengths
    held = int(lengths[:batch].sum()) - batch * options.steps // 2
    steps = len(device_ms)
    found = {
        "device_ms": statistics.median(device_ms),
        "step_ms": wall_s * 1e3 / steps,
        "host_us": (wall_s - (waits.seconds - waited)) * 1e6 / steps,
        "busy": sum(device_ms) / (wall_s * 1e3),
        "floor_ms": floor_ms(worker, held),
        "vocoder_ms": statistics.median(beside_ms) if beside_ms else 0.0,
        "vocoder_share": sum(beside_ms) / (wall_s * 1e3),
    }
    for slot in range(batch):
        worker.drop_rows(slot)
        worker.rank.release(slot)
        worker.live.pop(slot, None)
    return found


def floor_ms(worker: Worker, rows: int) -> float:
    """How long the bus needs for what a step must read: the weights once, and the rows held.

    Of the output matrix only the rows of ids that the spec allows.
    """
    engine = worker.parts.kv["lm"]
    head, (sampler,) = engine.module.embedding.weight, set(engine.samplers.values())
    layout = engine.cache.layout
    weights = sum(p.numel() * p.element_size() for p in engine.module.parameters())
    weights -= (len(head) - sampler.vocab) * head.shape[1] * head.element_size()
    row = 2 * layout.layers * layout.kv_heads * layout.head_dim * engine.cache.keys.element_size()
    return (weights + rows * row) / READ_BYTES_A_SECOND * 1e3


def make(
    folder: Path, sizes: tuple[int, ...], *, graphs: bool
) -> tuple[Worker, TimedExecutor, LocalMailbox]:
    plan = load_plan(folder)
    placement = load_placement(plan, PLACEMENT)
    executor = TimedExecutor(CudaGraphExecutor() if graphs else EagerExecutor())
    network = LocalNetwork()
    conductor = network.mailbox(CONDUCTOR)
    worker = make_worker(
        plan,
        placement,
        placement.processes[0],
        mailbox=network.mailbox(0),
        pool=InlinePool(),
        settings=RunSettings(cache_dir=Path("build/cache"), deterministic=False, buckets=sizes),
        progress=progress_to(sys.stderr),
        extras=Extras(executor=executor),
    )
    start = time.perf_counter()
    count = executor.capture(worker)
    print(f"captured {count} graphs in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return worker, executor, conductor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16, 32])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, default=768, help="rows of a request, on average")
    parser.add_argument("--eager", action="store_true", help="also call by call")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    use_threads(4)
    waits = Waits()
    rows = []
    for graphs in (False, True) if options.eager else (True,):
        worker, executor, conductor = make(options.plan, tuple(options.batches), graphs=graphs)
        for batch in options.batches:
            found = measure(worker, executor, waits, conductor, batch, options)
            rows.append({"batch": batch, "graphs": graphs, **found})
        del worker, executor, conductor
        torch.cuda.empty_cache()
    device = torch.device("cuda", 0)
    said = choices_on(device).said
    if options.json:
        machine = {"gpu": torch.cuda.get_device_name(device), "torch": torch.__version__}
        print(json.dumps({**machine, "attention": said, "rows": rows}))
        return
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}; {said}")
    print(f"requests of {options.rows} rows on average, {options.steps} steps")
    print(
        f"{'batch':>5} {'region':>12} {'device ms':>9} {'floor ms':>8} {'of floor':>8} "
        f"{'step ms':>8} {'busy':>6} {'host µs':>8} {'vocoder ms':>10} {'its share':>9}"
    )
    for row in rows:
        how = "one graph" if row["graphs"] else "call by call"
        print(
            f"{row['batch']:>5} {how:>12} {row['device_ms']:>9.3f} {row['floor_ms']:>8.2f} "
            f"{row['floor_ms'] / row['device_ms']:>8.1%} {row['step_ms']:>8.3f} "
            f"{row['busy']:>6.1%} {row['host_us']:>8.0f} {row['vocoder_ms']:>10.3f} "
            f"{row['vocoder_share']:>9.1%}"
        )


if __name__ == "__main__":
    main()

"""Orpheus' decode region on a GPU, as the compiler wrote it: ms a step, and what the host does.

The runtime's own worker runs a plan of full-size Orpheus with random weights. The region's body,
`speak_decode_pass` of the generated rank module, is run unchanged: first call by call, then
captured once as a CUDA graph and replayed. After every step the device is waited for, and the wait
is taken out of the host's time. Both ways run in one process, one after the other.

    mstarc compile specs/orpheus.mstar --sizes benchmarks/orpheus_full.yaml \\
        --placement 1xH200 -o build/orpheus_h200
    python benchmarks/gpu_decode.py build/orpheus_h200 [--batches 1 8 16 32] [--steps 200] [--json]
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

from mstarc_runtime.assembly import Extras, RunSettings, make_worker, use_threads
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.cuda_graph import CudaGraphExecutor
from mstarc_runtime.engine.device_choices import choices_on
from mstarc_runtime.engine.eager import EagerExecutor, Executor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.messages import Failed, Shape, Start
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
    """Waits for the device behind every run and says how long the device and the wait took."""

    def __init__(self, runs: Executor) -> None:
        self._runs = runs
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self.last_step = ""
        self.waited_s = 0.0
        self.device_ms = 0.0

    def captures(self, step: DeviceStep) -> bool:
        return self._runs.captures(step)

    def capture(self, worker: Worker) -> int:
        return self._runs.capture(worker)

    def run(self, rank: Rank, batch: StepBatch) -> None:
        self._begin.record()
        self._runs.run(rank, batch)
        self._end.record()
        start = time.perf_counter()
        self._end.synchronize()
        self.waited_s = time.perf_counter() - start
        self.device_ms = self._begin.elapsed_time(self._end)
        self.last_step = batch.step.name


def begin(worker: Worker, slot: int, steps: int) -> None:
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
                inputs={"prompt": Shape("plain", plain=f"request {slot} says this much")},
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
    worker: Worker, executor: TimedExecutor, conductor: LocalMailbox, batch: int, steps: int
) -> dict[str, float]:
    """Medians over the decode steps in which all `batch` requests take part."""
    for slot in range(batch):
        begin(worker, slot, MAX_TOKENS)
    device_ms: list[float] = []
    host_us: list[float] = []
    wall_ms: list[float] = []
    seen = 0
    while len(device_ms) < steps:
        executor.last_step = ""
        start = time.perf_counter()
        did = worker.turn()
        wall = time.perf_counter() - start
        refuse_failures(conductor)
        assert did, "the requests ended before enough steps were measured"
        if executor.last_step != DECODE:
            continue
        seen += 1
        if seen <= WARM_UP_STEPS + 2 * batch:
            continue
        device_ms.append(executor.device_ms)
        host_us.append((wall - executor.waited_s) * 1e6)
        wall_ms.append(wall * 1e3)
    for slot in range(batch):
        worker.drop_rows(slot)
        worker.rank.release(slot)
        worker.live.pop(slot, None)
    return {
        "device_ms": statistics.median(device_ms),
        "step_ms": statistics.median(wall_ms),
        "host_us": statistics.median(host_us),
    }


def make(folder: Path, *, graphs: bool) -> tuple[Worker, TimedExecutor, LocalMailbox]:
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
        settings=RunSettings(cache_dir=Path("build/cache"), deterministic=False),
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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    use_threads(4)
    rows = []
    for graphs in (False, True):
        worker, executor, conductor = make(options.plan, graphs=graphs)
        module = worker.parts.kv["lm"].module
        floor_ms = (
            sum(p.numel() * p.element_size() for p in module.parameters())
            / READ_BYTES_A_SECOND
            * 1e3
        )
        for batch in options.batches:
            found = measure(worker, executor, conductor, batch, options.steps)
            rows.append(
                {
                    "batch": batch,
                    "graphs": graphs,
                    "weights_floor_ms": round(floor_ms, 2),
                    **{name: round(value, 3) for name, value in found.items()},
                }
            )
        del worker, executor, conductor, module
        torch.cuda.empty_cache()
    if options.json:
        print(
            json.dumps(
                {
                    "gpu": torch.cuda.get_device_name(0),
                    "torch": torch.__version__,
                    "attention": choices_on(torch.device("cuda", 0)).said,
                    "rows": rows,
                }
            )
        )
        return
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, {choices_on(torch.device("cuda", 0)).said}; medians")
    print(
        f"{'batch':>5} {'region':>12} {'device ms':>9} {'step ms':>8} "
        f"{'host µs':>8} {'floor ms':>9}"
    )
    for row in rows:
        how = "one graph" if row["graphs"] else "call by call"
        print(
            f"{row['batch']:>5} {how:>12} {row['device_ms']:>9} {row['step_ms']:>8} "
            f"{row['host_us']:>8} {row['weights_floor_ms']:>9}"
        )


if __name__ == "__main__":
    main()

"""What the host does in a decode step: µs at several batch sizes, with a device that does nothing.

The runtime's own worker runs Orpheus' plan: admission, routing, the KV cache's page tables, the
attention plan's arguments, streams with their chunk policies, the message to the client's side.
Only the device is absent: a captured region is "replayed" by leaving its output buffers as they
are.

A step is measured where the host looks at each, and as one of a stretch of passes at which it looks
once (`of 4`), as on a GPU.

Requests begin at different times, so that pages fill and chunks fire in different steps, as they do
in service. Measured are decode steps by themselves (no chunk is ever complete), then decode steps
with the codec's steps between, which are also counted apart. A second process receives what the
worker sends. The codec makes one sample a window: at the speed of a device that does nothing, whole
windows would be a gigabyte a second.

    python benchmarks/host_step.py [--json] [--steps N] [--batches 1 8 32 64] [--runs 5]
"""

import argparse
import dataclasses
import io
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from null_device import (
    CONTEXT_ROWS,
    EndlessBuilder,
    NullAttention,
    NullExecutor,
    NullFrontend,
    NullLog,
    NullModel,
    SmallBuilder,
)

from mstarc_runtime.assembly import use_threads, with_stretch
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.builder import RankSettings
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.engine.implementations import Implementations
from mstarc_runtime.frames import Shape
from mstarc_runtime.grouping import alone
from mstarc_runtime.live import RankPlan
from mstarc_runtime.loader import load_placement, load_plan, load_rank
from mstarc_runtime.messages import Start
from mstarc_runtime.plan_api import DeviceStep, Step
from mstarc_runtime.transport.mailbox import Parcel
from mstarc_runtime.transport.sockets import SocketMailbox
from mstarc_runtime.weights.progress import progress_to
from mstarc_runtime.worker import Worker
from mstarc_schedule.batching import BatchPolicy

REFERENCE = {1: (143, 354), 8: (701, 1612), 32: (2474, 5951), 64: (5193, 11180)}
GOAL = {1: 15, 8: 20, 32: 35, 64: 60}
WARM_UP_STEPS = 200
DECODE = "speak.decode.pass"
STRETCH = 4
BUCKETS = (1, 2, 4, 8, 16, 32, 64)

SINK = """
import sys
from pathlib import Path
from mstarc_runtime.transport.mailbox import CONDUCTOR
import zmq
socket = zmq.Context().socket(zmq.PULL)
socket.bind("ipc://" + sys.argv[1] + "/conductor")
print("ready", flush=True)
while True:
    socket.recv_multipart()
"""


def with_buckets(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, at the sizes that a placement for 64 requests gives them."""
    return tuple(
        dataclasses.replace(step, buckets=BUCKETS)
        if isinstance(step, DeviceStep) and step.buckets
        else step
        for step in steps
    )


def with_tokens(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, with the decode pass also emitting its token to the client."""

    def extended(step: Step) -> Step:
        if not isinstance(step, DeviceStep) or step.name != DECODE:
            return step
        run = step.run

        def emitting(rank: Any, batch: StepBatch) -> None:
            run(rank, batch)
            batch.emit("tokens", rank.speak_token.take(batch))

        return dataclasses.replace(step, run=emitting, emits=("tokens",))

    return tuple(extended(step) for step in steps)


def make_worker(
    folder: Path,
    sockets: Path,
    *,
    tokens: bool,
    slots: int,
    codec: bool = True,
    stretch: int = 0,
) -> Worker:
    plan = load_plan(folder)
    placement = load_placement(plan, "cpu")
    rank_class, steps = load_rank(plan, "cpu", "rank0")
    executor = NullExecutor()
    implementations = Implementations(
        cache_dir=Path("/nonexistent"),
        progress=progress_to(io.StringIO()),
        extra={
            "orpheus:LanguageModel": NullModel,
            "orpheus:SnacDecoder": NullModel,
            "orpheus:Frontend": NullFrontend,
        },
        sources={"lm": "random", "codec": "random", "frontend": "random"},
    )
    settings = RankSettings(
        slots=slots,
        max_rows=CONTEXT_ROWS,
        device=torch.device("cpu"),
        dtype=torch.float32,
        captured=True,
        streams={name: route.capacity for name, route in placement.streams.items()},
    )
    worker = Worker(
        RankPlan(
            rank=0,
            process=0,
            rank_class=rank_class,
            steps=with_stretch(
                with_tokens(with_buckets(steps)) if tokens else with_buckets(steps), stretch
            ),
            slots=slots,
            spec=plan.spec,
            is_alone=True,
        ),
        mailbox=SocketMailbox(sockets, 0),
        pool=InlinePool(),
        executor=executor,
        policy=BatchPolicy(deterministic=False),
        device=settings.device,
        connect=alone,
        build=lambda worker: (SmallBuilder if codec else EndlessBuilder)(
            settings,
            implementations,
            listener=worker,
            courier=worker.courier,
            groups=worker.groups,
            attention=NullAttention,
        ),
    )
    if stretch:
        worker.stepper._log = lambda step, bucket: (  # type: ignore[method-assign]
            NullLog(bucket=bucket, most=stretch, tested=True, device=settings.device)
            if step.stretch
            else None
        )
    return worker


def begin(worker: Worker, slot: int) -> None:
    """Admits a request whose decode loop does not end."""
    options = {"voice": "tara", "temperature": 0.6, "max_tokens": CONTEXT_ROWS, "seed": slot}
    start = Start(
        slot=slot,
        request=slot,
        where={0: 0},
        machines=(("speak", 0), ("vocoder", 4)),
        bounds={"speak.decode": CONTEXT_ROWS},
        options=options,
        inputs={"prompt": Shape("plain", plain="hello")},
        seed=slot,
    )
    worker._handle(Parcel(start, ()))


CLOCKS = {"wall": time.perf_counter_ns, "cpu": time.thread_time_ns}


def measure(
    folder: Path,
    batch: int,
    steps: int,
    *,
    tokens: bool,
    codec: bool,
    clock: Callable[[], int],
    stretch: int = 0,
) -> tuple[float, float]:
    """µs of a decode step, and of the codec's steps for each decode step; medians.

    A turn that launches a stretch, and lands the one before, has a part for each of its steps.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as sockets:
        sink = subprocess.Popen([sys.executable, "-c", SINK, sockets], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        sink.stdout.readline()
        worker = make_worker(
            folder, Path(sockets), tokens=tokens, slots=64, codec=codec, stretch=stretch
        )
        try:
            decode = next(
                step.id for step in worker.plan.steps if getattr(step, "name", "") == DECODE
            )
            executor = worker.executor
            assert isinstance(executor, NullExecutor)
            for slot in range(batch):
                begin(worker, slot)
                for _ in range(5):
                    worker.turn()
            for _ in range(WARM_UP_STEPS):
                worker.turn()
            if stretch:
                means: list[float] = []
                while len(means) < steps:
                    before, start = executor.runs[decode], clock()
                    worker.turn()
                    passes = executor.runs[decode] - before
                    means += [(clock() - start) / passes] * passes
                return statistics.median(means) / 1e3, 0.0
            times: list[int] = []
            others: list[int] = []
            while len(times) < steps:
                executor.last_step = -1
                start = clock()
                worker.turn()
                spent = clock() - start
                (times if executor.last_step == decode else others).append(spent)
            share = len(others) / steps
            return (
                statistics.median(times) / 1e3,
                statistics.median(others) / 1e3 * share if others else 0.0,
            )
        finally:
            worker.mailbox.close()
            sink.kill()
            sink.wait()


def row(options: argparse.Namespace, batch: int, tokens: bool) -> dict[str, Any]:
    """One line of the table: medians over the runs."""
    found = [
        [
            measure(
                options.plan,
                batch,
                options.steps,
                tokens=tokens,
                codec=codec,
                clock=CLOCKS[options.clock],
            )
            for codec in (False, True)
        ]
        for _ in range(options.runs)
    ]
    together = [
        measure(
            options.plan,
            batch,
            options.steps,
            tokens=tokens,
            codec=False,
            clock=CLOCKS[options.clock],
            stretch=options.stretch,
        )
        for _ in range(options.runs)
    ]
    return {
        "batch": batch,
        "token_to_client": tokens,
        "step_us": round(statistics.median(alone[0] for alone, _ in found), 1),
        "stretch_us": round(statistics.median(mean for mean, _ in together), 1),
        "step_between_codec_us": round(statistics.median(mixed[0] for _, mixed in found), 1),
        "codec_us": round(statistics.median(mixed[1] for _, mixed in found), 1),
        "goal_us": GOAL.get(batch),
        "reference_us": REFERENCE.get(batch, (None, None))[int(tokens)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, default=Path("generated/orpheus"))
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: of the thread, on a busy machine"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--stretch", type=int, default=STRETCH, help="passes at a look of the host")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 64])
    options = parser.parse_args()
    use_threads(1)
    rows = [row(options, batch, tokens) for batch in options.batches for tokens in (False, True)]
    if options.json:
        machine = {"python": platform.python_version(), "machine": platform.processor()}
        how = {"steps": options.steps, "runs": options.runs, "clock": options.clock}
        print(json.dumps({**how, **machine, "rows": rows}))
        return
    print(
        f"host µs a decode step, {options.clock} time: medians of {options.steps} steps, "
        f"of {options.runs} runs"
    )
    form = "{:>5} {:>6} {:>7} {:>9} {:>14} {:>10} {:>5} {:>10}"
    heads = ("step", f"of {options.stretch}", "between codec", "the codec", "goal", "reference")
    print(form.format("batch", "token", *heads))
    for line in rows:
        line["token_to_client"] = "yes" if line["token_to_client"] else "no"
        print(form.format(*("-" if value is None else value for value in line.values())))


if __name__ == "__main__":
    main()

"""What a decode step of a node in shards costs the host of each of its ranks, beside a whole one.

The tiny Orpheus on CPUs, its decoder whole and in two shards, each rank a process as in service.
Host time is that of a rank's turns without the modules' calls and what goes beside their sums, each
turn counting as the middle one; `telling` is the part of it that a whole node's step has not: what
the leader says, or what the other does with it. Messages are those between ranks. With `--captured`
steps go as on a GPU: regions are captured, a call's arguments go from rank to rank in them, and
passes run in stretches of `--stretch` (0: the host looks at each). A capture is the body, run
again, and its end is single operations, which is most of what the other rank does then.

    python benchmarks/shard_steps.py [--captured] [--stretch 4] [--requests 4] [--json]
"""

import argparse
import io
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mstarc import driver
from mstarc.codegen.write import write_plan
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import (
    Extras,
    RunSettings,
    make_implementations,
    make_via,
    make_worker,
    use_threads,
)
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.conductor import Conductor
from mstarc_runtime.engine.eager import EagerExecutor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.engine.rerun import RerunExecutor
from mstarc_runtime.frames import Frame
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.messages import PROTOCOL, Ready, Stop
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.transport.mailbox import CONDUCTOR
from mstarc_runtime.transport.sockets import SocketMailbox
from mstarc_runtime.weights.progress import progress_to

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = {
    "one": "  - {node_names: [frontend, lm, codec], ranks: [0]}\n",
    "tp2": "  - {node_names: [frontend, codec], ranks: [0]}\n"
    "  - {node_names: [lm], ranks: [0, 1], tp_size: 2}\n",
}
DECODE = "speak.decode.pass"


class CountingMailbox(SocketMailbox):
    """Counts what goes to other ranks, and how long this one waits."""

    messages = sent_bytes = 0
    waited_s = 0.0

    def _sent(self, to: int, header: Frame, frames: Sequence[Frame]) -> bool:
        has_left = super()._sent(to, header, frames)
        if has_left and to != CONDUCTOR:
            self.messages += 1
            self.sent_bytes += len(header) + sum(len(frame) for frame in frames)
        return has_left

    def wait(self, timeout_s: float) -> None:
        begun = time.monotonic()
        super().wait(timeout_s)
        self.waited_s += time.monotonic() - begun


class Stopwatch:
    """Seconds of calls, of those in one another only the outer, without those of `beside`."""

    def __init__(self, beside: "Stopwatch | None" = None) -> None:
        self.spans: list[float] = []
        self.total_s = 0.0
        self._beside = beside
        self._is_running = False

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            if self._is_running:
                return call(*arguments, **named)
            self._is_running = True
            away = self._beside.total_s if self._beside else 0.0
            begun = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                spent = time.perf_counter() - begun
                self.spans.append(spent - (self._beside.total_s - away if self._beside else 0.0))
                self.total_s += spent
                self._is_running = False

        return timed

    @property
    def usual_s(self) -> float:
        """All of them, each counting as the middle one: others use the machine too."""
        return statistics.median(self.spans) * len(self.spans) if self.spans else 0.0


def extras_of(stretch: int | None) -> Extras:
    if stretch is None:
        return Extras(executor=EagerExecutor())
    return Extras(
        executor=RerunExecutor(),
        attention=lambda cache: TorchAttention(cache, row_by_row=False),
        stretch=stretch,
    )


def settings_of(folder: Path) -> RunSettings:
    sources = dict.fromkeys(("lm", "codec", "frontend"), "random")
    return RunSettings(cache_dir=folder, threads=1, deterministic=False, sources=sources)


def work(folder: str, layout: str, process: int, stretch: int | None, results: Any) -> None:
    """One rank, until it is told to stop; puts what it has counted."""
    use_threads(1)
    plan = load_plan(Path(folder) / "plan")
    placement = load_placement(plan, layout)
    mailbox = CountingMailbox(Path(folder) / layout, process)
    worker = make_worker(
        plan,
        placement,
        placement.processes[process],
        mailbox=mailbox,
        pool=InlinePool(),
        settings=settings_of(Path(folder)),
        progress=progress_to(io.StringIO()),
        extras=extras_of(stretch),
        sockets=Path(folder) / layout,
    )
    watch = Stopwatch()
    turns, telling, told = Stopwatch(watch), Stopwatch(), Stopwatch(watch)
    served = [one._engine._engine for one in worker.groups.serves.values()]
    for engine in (*served, *worker.parts.kv.values(), *worker.parts.stateless.values()):
        module = getattr(engine, "module", None) or engine._module
        for op in ("prefill", "step", "decode"):
            if hasattr(module, op):
                object.__setattr__(module, op, watch.around(getattr(module, op)))
        getattr(engine, "_calls", {}).clear()
        group = getattr(getattr(engine, "shard", None), "group", None)
        if group is not None:
            group.broadcast = watch.around(group.broadcast)
    for followers in worker.groups.leads.values():
        for method in ("note", "flush", "tell"):
            setattr(followers, method, telling.around(getattr(followers, method)))
    object.__setattr__(worker.groups, "handle", told.around(worker.groups.handle))
    turn = turns.around(worker.turn)
    mailbox.send(CONDUCTOR, Ready(process, PROTOCOL))
    mailbox.messages = mailbox.sent_bytes = 0
    while not worker.has_stopped:
        if not turn():
            turns.spans.pop()
            worker.wait(0.02)
    names = {step.id: step.name for step in worker.plan.steps if hasattr(step, "name")}
    runs = {names[step]: cost.runs for step, cost in worker.costs.by_step.items()}
    results.put(
        {
            "process": process,
            "host_s": turns.usual_s,
            "telling_s": telling.usual_s + told.usual_s,
            "waited_s": mailbox.waited_s,
            "messages": mailbox.messages,
            "bytes": mailbox.sent_bytes,
            "steps": runs.get(DECODE, 0),
        }
    )
    mailbox.close()


def measure(folder: Path, layout: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What each rank of a layout has counted while it served the requests."""
    (folder / layout).mkdir()
    plan = load_plan(folder / "plan")
    placement = load_placement(plan, layout)
    settings = settings_of(folder)
    stretch = options.stretch if options.captured else None
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    ranks = [
        spawn.Process(
            target=work,
            args=(str(folder), layout, facts.process, stretch, results),
            daemon=True,
        )
        for facts in placement.processes
    ]
    mailbox = SocketMailbox(folder / layout, CONDUCTOR)
    for rank in ranks:
        rank.start()
    ready = 0
    while ready < len(ranks):
        mailbox.wait(0.1)
        while (parcel := mailbox.receive()) is not None:
            ready += isinstance(parcel.message, Ready)
    conductor = Conductor(
        plan,
        placement,
        mailbox=mailbox,
        pool=InlinePool(),
        via=make_via(plan, make_implementations(settings, progress_to(io.StringIO()))),
    )
    for seed in range(options.requests):
        asked = Asked(
            inputs={"prompt": "well " * (3 + seed)}, options={"max_tokens": options.tokens}
        )
        conductor.submit(prepare(plan, asked, seed=seed), Silent())
    while conductor.pending:
        if not conductor.turn():
            mailbox.wait(0.01)
    for facts in placement.processes:
        mailbox.send(facts.process, Stop())
    found = sorted((results.get(timeout=30) for _ in ranks), key=lambda one: one["process"])
    for rank in ranks:
        rank.join()
    mailbox.close()
    return found


class Silent:
    """A listener that keeps nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--captured", action="store_true")
    parser.add_argument("--stretch", type=int, default=4)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=150)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    spec, sizes = ROOT / "specs/orpheus.mstar", ROOT / "specs/tiny/orpheus.yaml"
    head = "model: orpheus\ndevices: {}xcpu\nmax_seq_len: 512\nmax_concurrent_requests: 8\n"
    deployments = tuple(
        SourceFile(
            path=f"{name}.yaml", text=head.format(1 + (name != "one")) + f"node_groups:\n{groups}"
        )
        for name, groups in LAYOUTS.items()
    )
    outcome = driver.compile_spec(
        SourceFile(path="orpheus.mstar", text=spec.read_text("utf-8")),
        CompileOptions(
            deployments=deployments,
            sizes=SourceFile(path="sizes.yaml", text=sizes.read_text("utf-8")),
        ),
    )
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    with tempfile.TemporaryDirectory() as name:
        write_plan(outcome.files, Path(name) / "plan")
        found = {layout: measure(Path(name), layout, options) for layout in LAYOUTS}
    if options.json:
        print(json.dumps(found))
        return
    print("layout  rank  steps  host us/step  telling  messages/step  bytes/step  waits us/step")
    for layout, ranks in found.items():
        steps = max(1, ranks[0]["steps"])
        for one in ranks:
            print(
                f"{layout:6}  {one['process']:4}  {steps:5}  {one['host_s'] / steps * 1e6:12.0f}"
                f"  {one['telling_s'] / steps * 1e6:7.0f}"
                f"  {one['messages'] / steps:13.2f}  {one['bytes'] / steps:10.0f}"
                f"  {one['waited_s'] / steps * 1e6:13.0f}"
            )


if __name__ == "__main__":
    main()

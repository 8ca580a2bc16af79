"""Ranks in one process, taking turns as a test says: no plan folder, no weights, no clock.

`Rig` is given rank classes and steps as a plan has them, and models as plain classes. `Collected`
is a listener that keeps what a request makes.
"""

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mstarc_runtime.conductor import Conductor
from mstarc_runtime.engine.builder import RankBuilder, RankSettings
from mstarc_runtime.engine.eager import EagerExecutor, Executor
from mstarc_runtime.engine.host import HostEngine, InlinePool
from mstarc_runtime.engine.implementations import Implementations
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.shard import Collectives
from mstarc_runtime.live import RankPlan
from mstarc_runtime.loader import (
    Declared,
    GroupFacts,
    LoadedPlan,
    MachineStart,
    PlacementFacts,
    ProcessFacts,
    StreamRoute,
)
from mstarc_runtime.plan_api import Admission, Rank, Step
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.run_choices import HIGH_WATER_MARK
from mstarc_runtime.transport.local import LocalNetwork
from mstarc_runtime.transport.mailbox import CONDUCTOR
from mstarc_runtime.weights.progress import PlainProgress
from mstarc_runtime.worker import Worker
from mstarc_schedule.batching import BatchPolicy
from tests.support.threaded_group import ThreadedGroup

CPU = torch.device("cpu")


def nowhere() -> IO[str]:
    """A stream that keeps nothing."""
    return io.TextIOWrapper(io.BytesIO())


@dataclass(eq=False)
class Collected:
    """What one request has made, in the order in which it came."""

    texts: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    failure: RuntimeFailure | None = None

    def text(self, output: str, piece: str) -> None:
        self.texts[output] = self.texts.get(output, "") + piece
        self.events.append("text")

    def sound(self, output: str, samples: NDArray[np.float32], rate: int) -> None:
        self.values.setdefault(output, []).append(samples.tobytes())
        self.events.append("sound")

    def value(self, output: str, value: Any) -> None:
        kept = value.tolist() if isinstance(value, torch.Tensor) else value
        self.values.setdefault(output, []).append(kept)
        self.events.append("value")

    def finished(self) -> None:
        self.events.append("finished")

    def failed(self, failure: RuntimeFailure) -> None:
        self.failure = failure
        self.events.append("failed")

    def cancelled(self) -> None:
        self.events.append("cancelled")

    @property
    def is_over(self) -> bool:
        return bool({"finished", "failed", "cancelled"} & set(self.events))


class Rig:
    """A conductor and the workers of some ranks.

    `numbers` are the ranks' own, 0, 1, … unless given; `copies` says how often each exists.
    """

    def __init__(
        self,
        ranks: Sequence[tuple[type[Rank], Sequence[Step]]],
        *,
        machines: Mapping[str, tuple[int, int]],
        models: Mapping[str, Any],
        outputs: Mapping[str, str],
        admit: Callable[[Mapping[str, Any]], Admission],
        streams: Mapping[str, tuple[int, int, int]] | None = None,
        via: Mapping[str, tuple[str, str, Any]] | None = None,
        numbers: Sequence[int] | None = None,
        copies: Mapping[int, int] | None = None,
        groups: Sequence[tuple[int, ...]] = (),
        slots: int = 4,
        max_rows: int = 256,
        high_water_mark: int = HIGH_WATER_MARK,
        policy: BatchPolicy | None = None,
        executor: Executor | None = None,
    ) -> None:
        routes = {
            name: StreamRoute(producers=(producer,), consumer=consumer, capacity=capacity)
            for name, (producer, consumer, capacity) in (streams or {}).items()
        }
        via = via or {}
        plan = LoadedPlan(
            folder=Path(),
            model="test",
            spec="test.mstar",
            inputs=(),
            outputs=tuple(
                Declared(name=name, type=kind, via=via[name][:2] if name in via else None)
                for name, kind in outputs.items()
            ),
            options=(),
            nodes=(),
            via_nodes={},
            placements=("test",),
            request_class=lambda **given: given,  # type: ignore[arg-type]
            machines=SimpleNamespace(  # type: ignore[arg-type]
                check=lambda request: None, admit=admit
            ),
        )
        numbers = range(len(ranks)) if numbers is None else numbers
        processes = tuple(
            ProcessFacts(process=number, rank=rank, copy=copy, device=rank, module=f"rank{rank}")
            for number, (rank, copy) in enumerate(
                (rank, copy) for rank in numbers for copy in range((copies or {}).get(rank, 1))
            )
        )
        placement = PlacementFacts(
            name="test",
            devices=dict.fromkeys(numbers, "cpu"),
            max_requests=slots,
            max_tokens=max_rows,
            machines={n: MachineStart(rank=r, step=s) for n, (r, s) in machines.items()},
            streams=routes,
            processes=processes,
            groups=tuple(GroupFacts(node="", ranks=ranks, tp=len(ranks), sp=1) for ranks in groups),
        )
        network = self.network = LocalNetwork(high_water_mark)
        self._outputs = frozenset(outputs)
        self.conductor = Conductor(
            plan,
            placement,
            mailbox=network.mailbox(CONDUCTOR),
            pool=InlinePool(),
            via={node: HostEngine(node, made) for node, _, made in via.values()},
        )
        settings = RankSettings(
            slots=slots,
            max_rows=max_rows,
            device=CPU,
            dtype=torch.float32,
            captured=False,
            streams={name: route.capacity for name, route in routes.items()},
        )
        implementations = Implementations(
            cache_dir=Path("/nonexistent"), progress=PlainProgress(nowhere()), extra=models
        )
        self._joined: dict[str, ThreadedGroup] = {}

        def connect(name: str, *, index: int, count: int) -> Collectives:
            return self._joined.setdefault(name, ThreadedGroup(count)).member(index)

        modules = dict(zip(numbers, ranks, strict=True))
        self.workers = [
            Worker(
                RankPlan(
                    rank=facts.rank,
                    process=facts.process,
                    rank_class=modules[facts.rank][0],
                    steps=modules[facts.rank][1],
                    slots=slots,
                    spec="test.mstar",
                    is_alone=len(processes) == 1,
                    producers={name: route.producers for name, route in routes.items()},
                    peers={f.rank: f.process for f in processes if f.copy == facts.copy},
                ),
                mailbox=network.mailbox(facts.process),
                pool=InlinePool(),
                executor=executor or EagerExecutor(),
                policy=policy or BatchPolicy(deterministic=False),
                device=CPU,
                connect=connect,
                build=lambda worker: RankBuilder(
                    settings,
                    implementations,
                    listener=worker,
                    courier=worker.courier,
                    groups=worker.groups,
                ),
            )
            for facts in processes
        ]
        self.baseline = self.snapshot()
        self.errors: list[BaseException] = []

    def submit(
        self, *, wants: frozenset[str] | None = None, seed: int = 0, **options: Any
    ) -> tuple[int, Collected]:
        """A request with these options; its number and what it makes."""
        prepared = PreparedRequest(
            name="",
            inputs={},
            options=options,
            wants=self._outputs if wants is None else wants,
            seed=seed,
        )
        listener = Collected()
        return self.conductor.submit(prepared, listener), listener

    @contextmanager
    def following(self, *numbers: int) -> Iterator[None]:
        """While it lasts, these workers take turns in threads of their own."""
        others = [self.workers[number] for number in numbers]
        self.workers = [worker for worker in self.workers if worker not in others]
        done = threading.Event()
        self.errors = []

        def work(worker: Worker) -> None:
            try:
                while not done.is_set():
                    if not worker.turn():
                        worker.wait(0.002)
            except BaseException as error:
                self.errors.append(error)
                for group in self._joined.values():
                    group.abort()  # as sockets do when a process ends

        threads = [threading.Thread(target=work, args=(other,)) for other in others]
        for thread in threads:
            thread.start()
        try:
            yield
        except BaseException:
            for group in self._joined.values():
                group.abort()
            raise
        finally:
            done.set()
            for thread in threads:
                thread.join()
            self.workers = [*self.workers, *others]

    def turn(self) -> bool:
        did = False
        for worker in self.workers:
            did = worker.turn() or did
        return self.conductor.turn() or did

    def run(self, most_turns: int = 20_000) -> None:
        """Until nothing is pending; a test that never ends fails."""
        for _ in range(most_turns):
            self.turn()
            if not self.conductor.pending:
                return
        raise AssertionError(f"still pending after {most_turns} turns: {self.snapshot()}")

    def snapshot(self) -> list[dict[str, Any]]:
        return [self.conductor.snapshot(), *(worker.snapshot() for worker in self.workers)]

    def check_clean(self) -> None:
        """Nothing of any request is left."""
        for _ in range(20):
            self.turn()
        assert self.snapshot() == self.baseline

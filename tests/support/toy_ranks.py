"""Run generated ranks over toy values, one request at a time, as `mstarc.ir.interpret` would.

The same toy ops stand behind both, so a plan that means what its program means gives the same
tokens. A batch has one row and its dim is left out; a hop takes away what it does not carry, so
that a forgotten value is an error and not an old one.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import Any

from mstarc.ir.graph import Program, Stream
from mstarc.ir.interpret.toys import Fields, Toys, landmarks
from mstarc.ir.types import TupleType
from mstarc.plan.lanes import lanes_of
from mstarc_runtime import plan_api
from tests.support.toy_batch import ToyBatch, ToyJob, ToyRing
from tests.support.toy_parts import ToyBuilder, ToyNode
from tests.support.toy_rows import ToyOps


class ToyRequest:
    """One request over all ranks of a placement."""

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Any],
        wants: Collection[str],
        admission: Any,
    ) -> None:
        self.nodes = {node.name: node for node in program.nodes}
        self.toys = Toys(landmarks(program))
        self.inputs = inputs
        self.wants = wants
        self.options: Mapping[str, Any] = admission.options
        self.bounds: Mapping[str, int] = admission.bounds
        self.emits: dict[str, list[Any]] = {output.name: [] for output in program.outputs}
        self.rings: dict[str, ToyRing] = {}
        self.loops: dict[str, plan_api.Loop] = {}
        self.passes: dict[str, int] = {}
        self.drawn: dict[tuple[str, str], int] = {}

    def draw(self, node: ToyNode, sampler: str) -> None:
        """A sampler draws: what it has drawn before must be on its rank."""
        drawn = self.drawn.get((node.node.name, sampler), 0)
        assert node.drawn.get(sampler, 0) == drawn, f"{sampler} was left on another rank"
        self.drawn[node.node.name, sampler] = node.drawn[sampler] = drawn + 1

    def ring(self, name: str, policy: plan_api.Policy, item: tuple[int, ...]) -> ToyRing:
        if name not in self.rings:
            self.rings[name] = ToyRing(name, policy, item)
        return self.rings[name]

    def emit(self, output: str, value: Any) -> None:
        if output in self.wants:
            self.emits[output].append(value)


@dataclass(slots=True)
class Meeting:
    """Where branches meet: how many have come, and where the machine goes on when all have."""

    arrived: int = 0
    then: int | None = None


@dataclass(slots=True, kw_only=True)
class Ranks:
    """The ranks of a placement, built, with every step's rank and function."""

    request: ToyRequest
    ranks: dict[int, Any]
    builders: dict[int, ToyBuilder]
    steps: dict[int, tuple[int, Any]]
    order: Random

    def machine(self, start: int, meeting: Meeting | None = None) -> Iterator[str]:
        """Run a machine, or a branch of it up to its join; says after every step if it waits."""
        here: int | None = start
        while here is not None:
            rank, step = self.steps[here]
            match step:
                case plan_api.DoneStep(closes=closes):
                    for name in closes:
                        self.request.rings[name].history.closed = True
                    here = None
                case plan_api.HopStep():
                    here = self.hop(rank, step, alone=meeting is None)
                case plan_api.SpreadStep(branches=branches):
                    inner = Meeting()
                    # In any order: branches do not see one another.
                    for branch in self.order.sample(branches, len(branches)):
                        yield from self.machine(branch, inner)
                    assert inner.then is not None, "branches do not meet"
                    here = inner.then
                case plan_api.JoinStep(arrivals=arrivals, then=then):
                    assert meeting is not None
                    meeting.arrived += 1
                    meeting.then = self.target(then, None) if meeting.arrived == arrivals else None
                    here = None
                case plan_api.BranchStep(test=test, yes=yes, no=no):
                    here = self.target(yes if test(self.ranks[rank], 0) else no, None)
                case plan_api.MarkStep(streams=streams, mark=mark, then=then):
                    for name in streams:
                        history = self.request.rings[name].history
                        history.marks.append((len(history.items), mark))
                    here = then
                case _:
                    drained = False
                    if step.last is not None:
                        rings = [self.request.rings[name] for name in step.reads]
                        while "waits" in (known := {r.is_last(step.cut) for r in rings}):
                            yield "waits"
                        if "last" in known:
                            here = step.last
                            continue
                    for name in step.reads:
                        while (event := self.request.rings[name].next(step.cut)) is None:
                            yield "waits"
                        drained = drained or event == "drained"
                    for name in getattr(step, "pulls", ()):
                        while not self.request.rings[name].pull():
                            yield "waits"
                    here = step.drained if drained else self.run(rank, step)
            yield "goes on"

    def run(self, rank: int, step: Any) -> int:
        if isinstance(step, plan_api.HostStep):
            step.run(self.ranks[rank], ToyJob(request=self.request))
            return self.target(step.then, None)
        allowed = True
        if not isinstance(step.then, int):
            allowed = self.passes_behind(step.then) < self.request.bounds[step.then.loop]
        batch = ToyBatch(request=self.request, allowed=allowed)
        if step.prepare is not None:
            step.prepare(self.ranks[rank], batch)
        step.run(self.ranks[rank], batch)
        most = dict(step.sends)
        assert all(count <= most[name] for name, count in batch.sent.items()), step.name
        return self.target(step.then, batch)

    def target(self, target: Any, batch: ToyBatch | None) -> int:
        if isinstance(target, int):
            return target
        loop = self.request.loops[target.loop]
        self.request.passes[loop.name] = self.passes_behind(target)
        goes_on = self.request.passes[loop.name] < self.request.bounds[loop.bound]
        if loop.tested:
            assert batch is not None
            assert batch.went_on is not None, f"nothing tests {loop.name}"
            goes_on = batch.went_on
        first: int = target.first
        otherwise: int = target.otherwise
        return first if goes_on else otherwise

    def passes_behind(self, target: Any) -> int:
        """The passes that have run when a step is behind that leads into a loop, or back."""
        again = isinstance(target, plan_api.Again)
        return self.request.passes[target.loop] + 1 if again else 0

    def hop(self, rank: int, step: plan_api.HopStep, *, alone: bool) -> int:
        """Carry the values over; what is left behind of the machine is lost, if it is `alone`."""
        source, target = self.builders[rank].kept, self.builders[step.rank].kept
        there = self.steps[step.step][1]
        done = isinstance(there, plan_api.DoneStep)
        machine = there.machine if done else there.name.split(".")[0]
        for name in step.values:
            target[name].held = list(source[name].held)
        for node, what in step.contexts:
            self.builders[rank].holder(node).move(what, self.builders[step.rank].holder(node))
        for name, kept in source.items():
            # The rank that spreads keeps what its branches leave there.
            if name.startswith(f"{machine}_") and alone:
                kept.held = []
        return step.step


@contextmanager
def plan_package(files: Mapping[str, str]) -> Iterator[Any]:
    """`mstarc_plan.messages` and `.machines` of a plan, while the context lasts."""
    names = ("mstarc_plan", "mstarc_plan.messages", "mstarc_plan.machines")
    before = {name: sys.modules.get(name) for name in names}
    try:
        sys.modules["mstarc_plan"] = ModuleType("mstarc_plan")
        for name in names[1:]:
            sys.modules[name] = module(name, files[f"{name.partition('.')[2]}.py"])
        yield sys.modules["mstarc_plan.messages"], sys.modules["mstarc_plan.machines"]
    finally:
        for name, old in before.items():
            if old is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = old


def module(name: str, text: str) -> ModuleType:
    """A module of a text."""
    made = ModuleType(name)
    sys.modules[name] = made
    exec(compile(text, f"{name}.py", "exec"), made.__dict__)
    return made


def run_plan(
    files: Mapping[str, str],
    placement: str,
    program: Program,
    *,
    inputs: Mapping[str, Any],
    options: Mapping[str, Any],
    wants: frozenset[str] | None = None,
    order: Random,
) -> tuple[dict[str, tuple[Any, ...]], dict[str, list[Any]]]:
    """What a request gets from a plan's ranks: values by output, and items by stream."""
    with plan_package(files) as (messages, machines):
        wanted = {} if wants is None else {"wants": wants}
        given = {name: as_given(value) for name, value in inputs.items()}
        message = messages.Request(**given, **options, **wanted)
        machines.check(message)
        admission = machines.admit(message)
        request = ToyRequest(program, given, message.wants, admission)
        modules = [
            module(f"toy_rank{name}", files[name])
            for name in sorted(files)
            if name.startswith(f"placements/{placement}/rank")
        ]
        made: dict[int, Any] = {}
        builders: dict[int, ToyBuilder] = {}
        for loaded in modules:
            rank = loaded.RANK()
            rank.ops, rank.options = ToyOps(), lambda slot: request.options
            builder = ToyBuilder(request)
            rank.build(builder)
            made[rank.rank], builders[rank.rank] = rank, builder
        ranks = Ranks(
            request=request,
            ranks=made,
            builders=builders,
            steps={
                step.id: (loaded.RANK.rank, step) for loaded in modules for step in loaded.STEPS
            },
            order=order,
        )
        placed = json.loads(files[f"placements/{placement}/placement.json"])
        starts = {name: start["step"] for name, start in placed["machines"].items()}
        take_turns(ranks, starts, admission, order)
        streams = {
            stream.name: items_of(stream, request.rings)
            for stream in program.streams
            if lanes_of(stream)[0].name in request.rings
        }
        for rank in made.values():
            rank.release(0)
    emits = {name: tuple(values) for name, values in request.emits.items()}
    return emits, streams


def items_of(stream: Stream, rings: Mapping[str, ToyRing]) -> list[Any]:
    """All items of a stream, of its lanes together."""
    columns = {
        lane.field or "": [value for value, _ in rings[lane.name].history.items]
        for lane in lanes_of(stream)
    }
    if not isinstance(stream.item, TupleType):
        return columns[""]
    return [
        Fields(tuple(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]


def as_given(value: Any) -> Any:
    """An input as the runtime hands it over: parts know where they stand."""
    if not isinstance(value, tuple):
        return value
    parts = [plan_api.Part(kind=p.kind, value=p.value, role=p.role) for p in value]
    return plan_api.parts_in_order(parts)


def take_turns(ranks: Ranks, starts: Mapping[str, int], admission: Any, order: Random) -> None:
    """Run all machines that run, in any order; one that waits for ever is an error."""
    for _, step in ranks.steps.values():
        if isinstance(step, plan_api.DoneStep) and not admission.runs[step.machine]:
            for name in step.closes:
                ranks.request.rings[name].history.closed = True
    live = {name: ranks.machine(start) for name, start in starts.items() if admission.runs[name]}
    idle = 0
    while live:
        name = order.choice(sorted(live))
        said = next(live[name], "done")
        if said == "done":
            del live[name]
        idle = idle + 1 if said == "waits" else 0
        assert idle < 1000, f"{', '.join(sorted(live))} wait for ever"

"""Number the steps of all machines of one placement, and find what each rank holds.

Where an edge leads to a step of another rank, a hop step is put on the edge's own rank (`hops`).
"""

from dataclasses import replace
from typing import Literal

from mstarc.diagnostics import InternalError
from mstarc.ir.decisions import Placement, Region
from mstarc.ir.graph import Program
from mstarc.plan.actions import Action, CallOp, PullItem
from mstarc.plan.draft import Draft, Goto, Label, LoopEdge, calls_in
from mstarc.plan.flatten import Flattener
from mstarc.plan.holdings import Holdings, rank_plan
from mstarc.plan.hops import Way, way
from mstarc.plan.lanes import lanes_of, stream_of
from mstarc.plan.pieces import prompt_of
from mstarc.plan.plan import (
    BranchPlan,
    DonePlan,
    HopPlan,
    JoinPlan,
    LoopTarget,
    MachineStart,
    MarkPlan,
    NodeWeights,
    PlacedPlan,
    RunStep,
    Section,
    SpreadPlan,
    Step,
    StreamPlan,
    Target,
)
from mstarc.plan.prompt import Prompt
from mstarc.plan.settle import MachineFlow, settle
from mstarc.plan.signatures import (
    Signatures,
    has_free_dim,
    has_request_dim,
    has_unknown_dim,
    static_bytes,
)
from mstarc.plan.step_facts import (
    chunks_of,
    defined_in,
    emits_of,
    nodes_of,
    packed_of,
    passes_in,
    prepares_of,
    sends_of,
    used_in,
    why_eager,
)
from mstarc.plan.stretch import stretch_of
from mstarc.plan.together import together


class Numbering:
    """Gives every step of a placement its number."""

    def __init__(self, program: Program, placement: Placement, flows: list[MachineFlow]) -> None:
        self.program = program
        self.placement = placement
        self.flows = flows
        self.signatures = Signatures(program)
        self.ids: dict[Draft, int] = {}
        self.hops: dict[Way, int] = {}
        self.count = 0

    def run(self) -> dict[int, list[tuple[Step, MachineFlow]]]:
        """All steps by rank, in the order of their numbers."""
        for flow in self.flows:
            for draft in flow.flow.drafts:
                self.ids[draft] = self._next()
                for target in flow.flow.targets(draft):
                    hop = way(draft, target)
                    if hop is not None and hop not in self.hops:
                        self.hops[hop] = self._next()
        steps: dict[int, list[tuple[Step, MachineFlow]]] = {
            rank: [] for rank in self.placement.ranks
        }
        for flow in self.flows:
            for draft in flow.flow.drafts:
                steps[draft.rank].append((self._step(draft, flow), flow))
            for hop in flow.hops.ways:
                steps[hop.rank].append((self._hop(hop, flow), flow))
        for rank_steps in steps.values():
            rank_steps.sort(key=lambda item: item[0].id)
        return steps

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _hop(self, hop: Way, flow: MachineFlow) -> HopPlan:
        travelling = flow.hops.values(hop)
        alive = [variable for name, variable in flow.variables.items() if name in travelling]
        sizes = [static_bytes(variable.type) for variable in alive]
        known = all(variable.storage == "register" for variable in alive)
        return HopPlan(
            id=self.hops[hop],
            name=f"{flow.names[hop.target]}.hop",
            rank=hop.target.rank,
            step=self.ids[hop.target],
            values=tuple(variable.name for variable in alive),
            bytes=sum(size or 0 for size in sizes) if known else None,
            contexts=flow.hops.contexts(hop),
            row_bytes=flow.hops.row_bytes(hop),
        )

    def _to(self, draft: Draft, label: Label, flow: MachineFlow) -> int:
        target = flow.flow.at(label)
        hop = way(draft, target)
        return self.ids[target] if hop is None else self.hops[hop]

    def _target(self, draft: Draft, flow: MachineFlow) -> Target:
        match draft.then:
            case None:
                raise InternalError(f"step {flow.names[draft]} leads nowhere", stage="plan")
            case Goto(target):
                return self._to(draft, target, flow)
            case edge:
                return self._edge(draft, edge, flow)

    def _edge(self, draft: Draft, edge: Label | LoopEdge, flow: MachineFlow) -> Target:
        if isinstance(edge, Label):
            return self._to(draft, edge, flow)
        first, otherwise = (self._to(draft, label, flow) for label in (edge.first, edge.otherwise))
        return LoopTarget(kind=edge.kind, loop=edge.loop, first=first, otherwise=otherwise)

    def _step(self, draft: Draft, flow: MachineFlow) -> Step:
        name, number = flow.names[draft], self.ids[draft]
        section = self._section(draft, flow)
        if draft.kind == "done":
            closes = flow.flattener.closes()
            return DonePlan(id=number, name=name, machine=flow.machine.name, closes=closes)
        if draft.kind == "spread":
            return SpreadPlan(
                id=number,
                name=name,
                branches=tuple(self._to(draft, label, flow) for label in draft.branches),
                text=draft.text,
                line=draft.line,
            )
        if draft.kind == "join":
            return self._join(draft, flow)
        if draft.kind == "mark":
            assert draft.mark is not None
            stream, mark = draft.mark
            lanes = lanes_of(flow.flattener.streams[stream])
            then = self._target(draft, flow)
            assert isinstance(then, int)
            return MarkPlan(
                id=number,
                name=name,
                streams=tuple(lane.name for lane in lanes),
                mark=mark,
                text=draft.text,
                line=draft.line,
                then=then,
            )
        if draft.kind == "branch":
            assert draft.test is not None
            assert draft.yes is not None
            assert draft.no is not None
            return BranchPlan(
                id=number,
                name=name,
                section=section,
                line=draft.line,
                test=draft.test,
                text=draft.text,
                yes=self._edge(draft, draft.yes, flow),
                no=self._edge(draft, draft.no, flow),
            )
        return self._run_step(draft, flow, section)

    def _join(self, draft: Draft, flow: MachineFlow) -> JoinPlan:
        then = self._target(draft, flow)
        assert isinstance(then, int)
        spread = next(other for other in flow.flow.drafts if other.join is draft)
        return JoinPlan(
            id=self.ids[draft],
            name=flow.names[draft],
            arrivals=len(spread.branches),
            text=draft.text,
            line=draft.line,
            then=then,
        )

    def _run_step(self, draft: Draft, flow: MachineFlow, section: Section) -> RunStep:
        signatures = self.signatures
        actions = together(tuple(draft.actions), signatures)
        calls = calls_in(actions)
        host = draft.kind == "host"
        region = self._region(draft)
        # Requests of one call have one shape: alone, where the values that come in do not tell.
        unknown = any(
            # What is `receptive` makes equally much of equal chunks.
            (has_unknown_dim(result.type) and signatures.op(call).receptive is None)
            or (signatures.rows(call) == "shaped" and has_request_dim(result.type))
            for call in calls
            for result in signatures.op(call).results
        )
        live_in = flow.flow.live_in[id(draft)]
        live_out = flow.flow.live_out[id(draft)]
        defined, used = defined_in(actions), used_in(actions)
        loads = tuple(name for name in used if name in live_in)
        packed = () if host else packed_of(actions, signatures)
        chunks = chunks_of(actions)
        rows = None if host else self._rows(calls, loads, chunks, flow)
        if rows == "packed":
            packed += tuple(
                name
                for name in chunks
                if name not in used and has_free_dim(flow.variables[name].type)
            )
        collected = [name for name in loads if flow.variables[name].storage == "collector"]
        alone = (
            unknown
            or draft.alone
            or any(map(signatures.is_alone, calls))
            or any(name not in packed for name in collected)
        )
        step = RunStep(
            id=self.ids[draft],
            name=flow.names[draft],
            kind="host" if host else "device",
            machine=flow.machine.name,
            role=draft.role,
            section=section,
            line=draft.line,
            nodes=nodes_of(actions),
            actions=actions,
            loads=loads,
            stores=tuple(name for name in flow.kept(defined) if name in live_out),
            packed=packed,
            rows=rows,
            region=region.name if region is not None else None,
            buckets=region.buckets if region is not None else ((1,) if alone else ()),
            prepares=() if host else prepares_of(actions, signatures),
            reads=draft.reads,
            cut=draft.cut,
            pulls=draft.pulls,
            sure=any(isinstance(action, PullItem) and action.sure for action in actions),
            drained=None if draft.drained is None else self._to(draft, draft.drained, flow),
            last=None if draft.last is None else self._to(draft, draft.last, flow),
            sends=sends_of(actions),
            emits=emits_of(actions),
            passes=passes_in(actions, flow.flattener.turns.loops.keys()),
            then=self._target(draft, flow),
            why="host" if host else why_eager(calls, region, signatures),
            prompt=self._prompt(actions, loads, flow) if rows == "packed" else None,
        )
        self._assert_room(step, flow)
        return replace(step, stretch=self._stretch(step, flow))

    def _assert_room(self, step: RunStep, flow: MachineFlow) -> None:
        """No step waits for more room than there ever is."""
        for lane, count in step.sends:
            stream = flow.flattener.streams[stream_of(lane)]
            if stream.capacity is not None and count > stream.capacity:
                what = f"`{step.name}` sends {count} items to `{stream.name}`, which holds less"
                raise InternalError(what, stage="plan", span=stream.span)

    def _stretch(self, step: RunStep, flow: MachineFlow) -> int:
        is_cut = any(len(a.ranks) > 1 for node in step.nodes for a in self.placement.of(node))
        if is_cut and len(step.nodes) > 1:
            # Ranks that hold parts are told of the calls of each node by itself.
            return 0
        streams = flow.flattener.streams
        return stretch_of(step, self.placement.stretch, streams, flow.variables)

    def _prompt(
        self, actions: tuple[Action, ...], loads: tuple[str, ...], flow: MachineFlow
    ) -> Prompt | None:
        drafts = flow.flow.drafts
        calls = [c for d in drafts if d.kind == "host" for c in d.actions if isinstance(c, CallOp)]
        others = [a for d in drafts for a in d.actions if a not in calls]
        return prompt_of(
            actions,
            prepares_of(actions, self.signatures),
            self.signatures,
            loads=loads,
            variables=flow.variables,
            from_host=set(defined_in(tuple(calls))) - set(defined_in(tuple(others))),
        )

    def _rows(
        self,
        calls: list[CallOp],
        loads: tuple[str, ...],
        chunks: tuple[str, ...],
        flow: MachineFlow,
    ) -> Literal["one", "fixed", "packed", "shaped"]:
        kept = [name for name in loads if flow.variables[name].storage == "values"]
        if not calls and (kept or any(has_free_dim(flow.variables[name].type) for name in chunks)):
            # Nothing but shapes says which requests may be stacked.
            return "shaped"
        return self.signatures.rows_together(calls) or "one"

    def _region(self, draft: Draft) -> Region | None:
        sites = {call.site for call in draft.calls}
        for region in self.program.regions:
            if sites & set(region.sites) and region.rank == draft.rank:
                return region
        return None

    def _section(self, draft: Draft, flow: MachineFlow) -> Section:
        place = draft.place
        if place.walk is None:
            state = next((s for s in flow.machine.states if s.name == place.state), None)
            span = flow.machine.span if state is None else state.span
            text = f"machine {place.machine}, state {place.state}"
            line = flow.flattener.line(span)
        else:
            line = flow.flattener.line(flow.flattener.walks[place.walk].span)
            text = f"walk {place.walk}"
        if draft.role == "pass":
            text += ", one pass of its loop"
            line = draft.line
        region = self._region(draft)
        return Section(text=text + (f": region {region.name}" if region else ""), line=line)


def _writers(flow: MachineFlow) -> dict[str, tuple[int, ...]]:
    """The ranks that have the way to each stream of a machine.

    One that sends from several ranks has it wherever it is: it takes along how much was sent.
    """
    drafts = flow.flow.drafts
    sent = {draft.rank for draft in drafts if sends_of(tuple(draft.actions))}
    ranks = sent if len(sent) < 2 else {draft.rank for draft in drafts}
    return {lane: tuple(sorted(ranks)) for lane in flow.flattener.closes() if ranks}


def place_plan(
    program: Program, flatteners: list[Flattener], weights: tuple[NodeWeights, ...]
) -> PlacedPlan:
    """The plan of one placement from its machines, cut into steps."""
    placement = program.placement
    assert placement is not None
    flows = [settle(flattener, program) for flattener in flatteners]
    numbering = Numbering(program, placement, flows)
    steps = numbering.run()
    readers = {
        stream: draft.rank
        for flow in flows
        for draft in flow.flow.drafts
        for stream in (*draft.reads, *draft.pulls)
    }
    writers = {lane: ranks for flow in flows for lane, ranks in _writers(flow).items()}
    first = placement.ranks[0]
    holdings = Holdings(program=program, weights=weights, readers=readers, writers=writers)
    starts = []
    for flow in flows:
        start = flow.flow.at(flow.flattener.state_labels[flow.machine.states[0].name])
        starts.append(
            MachineStart(machine=flow.machine.name, rank=start.rank, step=numbering.ids[start])
        )
    return PlacedPlan(
        program=program,
        placement=placement,
        ranks=tuple(rank_plan(rank, steps[rank], flows, holdings) for rank in placement.ranks),
        machines=tuple(starts),
        streams=tuple(
            StreamPlan(
                stream=stream,
                lanes=tuple(lane.name for lane in lanes),
                producer_ranks=writers.get(lanes[0].name) or (readers.get(lanes[0].name, first),),
                consumer_rank=readers.get(lanes[0].name, writers.get(lanes[0].name, (first,))[0]),
            )
            for stream in program.streams
            for lanes in [lanes_of(stream)]
        ),
        variables=tuple(variable for flow in flows for variable in flow.variables.values()),
    )

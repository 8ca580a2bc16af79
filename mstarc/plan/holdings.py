"""What a rank holds: nodes with their weights and pages, rings, registers, constants, loops."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mstarc.analysis.bounds import upper_bound
from mstarc.ir.decisions import Assignment
from mstarc.ir.exprs import Const, Expr, Input, LetRef, Option
from mstarc.ir.graph import Node, Program
from mstarc.ir.types import TensorType
from mstarc.ir.walking import subexpressions
from mstarc.plan.actions import Action, CallOp, Repeat, expressions_of
from mstarc.plan.lanes import lanes_of
from mstarc.plan.naming import attribute
from mstarc.plan.plan import (
    ArrayPlan,
    BranchPlan,
    Constant,
    HopPlan,
    LoopPlan,
    MarkPlan,
    NodePlan,
    NodeWeights,
    OutboxPlan,
    RankPlan,
    RingPlan,
    RunStep,
    Step,
    TablePlan,
    Variable,
)
from mstarc.plan.signatures import Signatures
from mstarc.plan.step_facts import defined_in, passes_of, tables_in, used_in

if TYPE_CHECKING:
    from mstarc.plan.settle import MachineFlow


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """`readers` and `writers` give the ranks of each stream's ends."""

    program: Program
    weights: tuple[NodeWeights, ...]
    readers: Mapping[str, int]
    writers: Mapping[str, tuple[int, ...]]


def rank_plan(
    rank: int,
    steps: "list[tuple[Step, MachineFlow]]",
    flows: "list[MachineFlow]",
    holdings: Holdings,
) -> RankPlan:
    """Everything of one rank."""
    program = holdings.program
    runs = [step for step, _ in steps if isinstance(step, RunStep)]
    nodes = list(dict.fromkeys(node for step in runs for node in step.nodes))
    nodes += [name for name in _served(rank, holdings) if name not in nodes]
    order = {node.name: index for index, node in enumerate(program.nodes)}
    nodes.sort(key=order.__getitem__)
    machines = list(dict.fromkeys(flow.machine.name for _, flow in steps))
    sent = {stream for step in runs for stream, _ in step.sends}
    sent |= {name for step, _ in steps if isinstance(step, MarkPlan) for name in step.streams}
    sent |= {lane for lane, ranks in holdings.writers.items() if len(ranks) > 1 and rank in ranks}
    rings, outboxes = [], []
    for stream in program.streams:
        for lane in lanes_of(stream):
            reader = holdings.readers.get(lane.name, rank)
            if reader == rank and (lane.name in sent or lane.name in holdings.readers):
                assert stream.capacity is not None, "size-chunk-buffers has run"
                rings.append(
                    RingPlan(
                        name=lane.name,
                        item=lane.type,
                        policy=stream.policy,
                        tail=stream.tail,
                        empty=stream.empty,
                        capacity=stream.capacity,
                    )
                )
            elif lane.name in sent:
                outboxes.append(OutboxPlan(name=lane.name, item=lane.type, rank=reader))
    return RankPlan(
        rank=rank,
        nodes=tuple(_node_plan(program.nodes[order[node]], rank, holdings) for node in nodes),
        machines=tuple(machines),
        rings=tuple(rings),
        outboxes=tuple(outboxes),
        variables=_variables(rank, steps, flows),
        constants=_constants(runs, program),
        tables=_tables(runs, flows),
        loops=_loops(rank, [step for step, _ in steps], flows),
        steps=tuple(step for step, _ in steps),
    )


def _tables(runs: list[RunStep], flows: "list[MachineFlow]") -> tuple[TablePlan, ...]:
    """The tables that device steps look up, in the order of their names."""
    used = {name for step in runs if step.kind == "device" for name in tables_in(step.actions)}
    held = {name: t for flow in flows for name, t in flow.flattener.turns.tables.items()}
    return tuple(held[name] for name in sorted(used))


def _loops(rank: int, steps: list[Step], flows: "list[MachineFlow]") -> tuple[LoopPlan, ...]:
    """The loops whose passes end here, and those whose pass number is asked for here."""
    found: list[LoopPlan] = []
    for flow in flows:
        loops, turns = flow.flattener.loops, flow.flattener.turns.loops
        asked = {name for step in steps for name in _passes(step, turns.keys())}
        for name, home in loops.ranks.items():
            if home != rank and name not in asked:
                continue
            turn = turns.get(name)
            over = turn.over if turn is not None and turn.is_part else None
            found.append(
                LoopPlan(
                    name=name,
                    tested=loops.tested[name],
                    numbered=name in asked,
                    index=None if turn is None else turn.index,
                    over=over.name if isinstance(over, Input) else None,
                )
            )
    return tuple(found)


def _passes(step: Step, loops: Set[str]) -> tuple[str, ...]:
    match step:
        case RunStep(passes=passes):
            return tuple(name for name in passes if name in loops)
        case BranchPlan(test=test):
            return passes_of([test], loops)
        case _:
            return ()


def count_name(node: str, context: str) -> str:
    """What admission calls the number of contexts of an array, where it has no name."""
    return f"{node}.{context}.count"


def _arrays(node: Node, program: Program) -> tuple[ArrayPlan, ...]:
    found = []
    for context in node.contexts:
        if context.count is None:
            continue
        most = upper_bound(program, context.count)
        assert most is not None, "typecheck has found a largest size"
        named = isinstance(context.count, Const | Option | LetRef)
        count = context.count if named else Option(count_name(node.name, context.name))
        found.append(ArrayPlan(context=context.name, count=count, most=most))
    return tuple(found)


def _node_plan(node: Node, rank: int, holdings: Holdings) -> NodePlan:
    pool = next((p for p in holdings.program.pools if (p.rank, p.node) == (rank, node.name)), None)
    weights = next(w for w in holdings.weights if w.node == node.name)
    arrays = _arrays(node, holdings.program)
    group = _group(rank, node.name, holdings)
    if len(group.ranks) == 1:
        return NodePlan(node=node, weights=weights, pool=pool, arrays=arrays)
    return NodePlan(
        node=node,
        weights=weights,
        pool=pool,
        arrays=arrays,
        group=group.ranks,
        tp=group.tp,
        sp=group.sp,
    )


def _group(rank: int, node: str, holdings: Holdings) -> Assignment:
    """The group that holds a node on a rank: one, whatever the walk."""
    placement = holdings.program.placement
    assert placement is not None
    return next(a for a in placement.of(node) if rank in a.ranks)


def _served(rank: int, holdings: Holdings) -> tuple[str, ...]:
    """The nodes of which the rank holds a shard that another rank leads and calls."""
    placement = holdings.program.placement
    assert placement is not None
    return tuple(
        assignment.node for assignment in placement.assignments if rank in assignment.ranks[1:]
    )


def _variables(
    rank: int, steps: "list[tuple[Step, MachineFlow]]", flows: "list[MachineFlow]"
) -> tuple[Variable, ...]:
    """What the rank's steps keep, and what arrives or leaves with a machine."""
    here: set[str] = set()
    for step, _ in steps:
        if isinstance(step, RunStep):
            here.update(step.loads, step.stores, defined_in(step.actions), used_in(step.actions))
            here.update(a.collector for a in step.actions if hasattr(a, "collector"))
        elif isinstance(step, HopPlan):
            here.update(step.values)
    for flow in flows:
        for hop in flow.hops.ways:
            if hop.target.rank == rank:
                here.update(flow.hops.values(hop))
    return tuple(
        variable
        for flow in flows
        for name, variable in flow.variables.items()
        if name in here and variable.storage != "local"
    )


def _constants(steps: Iterable[RunStep], program: Program) -> tuple[Constant, ...]:
    """The lists that device steps use, each once, by their config name."""
    signatures = Signatures(program)
    taken = {node.name for node in program.nodes} | {stream.name for stream in program.streams}
    found: dict[tuple[str, tuple[int | float, ...]], Constant] = {}
    for step in steps:
        if step.kind == "host":
            continue
        for dtype, const in _lists(step.actions, signatures):
            assert isinstance(const.value, tuple)
            numbers = tuple(v for v in const.value if isinstance(v, int | float))
            name = const.name or f"list_{len(found)}"
            name = attribute(f"{name}_list" if name in taken else name)
            found.setdefault(
                (dtype, numbers),
                Constant(name=name, dtype=dtype, value=numbers, config=const.name),
            )
    return tuple(found.values())


def _lists(actions: tuple[Action, ...], signatures: Signatures) -> list[tuple[str, Const]]:
    lists: list[tuple[str, Const]] = []
    for action in actions:
        if isinstance(action, Repeat):
            lists += _lists(action.body, signatures)
        parameters = signatures.op(action).parameters if isinstance(action, CallOp) else ()
        for index, expr in enumerate(expressions_of(action)):
            type_ = parameters[index].type if index < len(parameters) else None
            lists += [(_dtype(type_, const), const) for const in _list_constants(expr)]
    return lists


def _list_constants(expr: Expr) -> list[Const]:
    return [e for e in subexpressions(expr) if isinstance(e, Const) and isinstance(e.value, tuple)]


def _dtype(type_: object, const: Const) -> str:
    if isinstance(type_, TensorType):
        return type_.dtype
    assert isinstance(const.value, tuple)
    return "f32" if any(isinstance(v, float) for v in const.value) else "i64"

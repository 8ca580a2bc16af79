"""A cost table → the numbers of a placement.

A node is one piece, but one with a KV cache, which has state worth moving, has a piece for each
walk that calls it in a loop, with walks that call the same ops, and one for all its other walks; in
a loop's walk a context that a `parallel` branch of its own uses is a further piece. Host nodes have
no piece: the nearest node takes their edges. A layout has room on each device for all requests that
may run as they are expected, and for one at its longest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from mstarc.analysis.control import control_path
from mstarc.analysis.cost_table import CallCost, CostTable
from mstarc.analysis.memory import RESERVE
from mstarc.analysis.placement.problem import Edge, Option, Piece, Problem, Supply
from mstarc.deployment import DeviceKind
from mstarc.ir.graph import Call, Program, Pull
from mstarc.records import dataclass

# Passes a request above which a call counts as one of a loop.
FEW_RUNS = 1.5
# Ways to cut a sequence that are tried.
SEQUENCE_SIZES = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a piece is in the program: calls of a node. `walks` and `contexts` () mean the rest."""

    name: str
    node: str
    walks: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    calls: tuple[CallCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A problem, and the part of the program that each of its pieces stands for, by name.

    `flow` has the names in the order in which a request reaches them.
    """

    problem: Problem
    flow: tuple[str, ...]
    parts: Mapping[str, Part] = field(default_factory=dict)


def model_of(program: Program, table: CostTable, requests: int) -> Model:
    """The numbers of a program whose table this is, for so many requests at once on each copy."""
    sequential = {node.name for node in program.nodes if "sequence" in node.shards}
    skipped = {node.name for node in program.nodes if node.engine == "host"}
    parts = [part for node in table.order if node not in skipped for part in _parts_of(node, table)]
    at = {call.site: part.name for part in parts for call in part.calls}
    at |= _hosts_at(table, at)
    branches = _branches(table, at)
    kinds = table.cluster.kinds
    pieces: list[Piece] = []
    bytes_of: dict[tuple[str, Option], int] = {}
    for part in parts:
        options = [
            Option(index, tp, sp)
            for index, kind in enumerate(kinds)
            for tp in table.sizes[part.node]
            for sp in (SEQUENCE_SIZES if part.node in sequential else (1,))
            if tp * sp <= table.cluster.count
        ]
        contexts = sorted({c for call in part.calls for c in _contexts(call, table)})
        holds = (part.node, *(f"{part.node}.{context}" for context in contexts))
        for option in options:
            size = table.weights[part.node] // option.tp + table.held[part.node]
            bytes_of[part.node, option] = size
            for context in contexts:
                size = _rows_bytes(table, part.node, context, option.tp, requests)
                bytes_of[f"{part.node}.{context}", option] = size
        branch, aside = branches.get(part.name, (None, ()))
        beside = [call for call in part.calls if call.site in aside]
        pieces.append(
            Piece(
                name=part.name,
                node=part.node,
                machine=_machine(part),
                busy_s={o: _seconds(table, part.calls, o, requests) for o in options},
                alone_s={o: _seconds(table, part.calls, o, 1) for o in options},
                aside_s={o: _seconds(table, beside, o, 1) for o in options} if branch else {},
                branch=branch,
                holds=holds,
            )
        )
    problem = Problem(
        pieces=tuple(pieces),
        together=_together(program, at),
        edges=_edges(table, at, requests),
        bytes_of=bytes_of,
        supply=tuple(
            Supply(
                name=kind.name,
                count=sum(n for k, n in table.cluster.parts if k == kind),
                capacity_bytes=_capacity(kind),
                price=kind.price,
            )
            for kind in kinds
        ),
    )
    return Model(
        problem=problem,
        flow=tuple(dict.fromkeys(at[site] for site in _flow(program) if at.get(site))),
        parts={part.name: part for part in parts},
    )


def _flow(program: Program) -> list[str]:
    """The sites of calls, of a machine that sends a stream before those of one that reads it."""
    left = {machine.name: machine for machine in program.machines}
    sites: list[str] = []
    while left:
        waits = {s.consumer for s in program.streams if s.producer in left and s.consumer in left}
        # Machines that read from one another in a circle go by name.
        name = min(set(left) - waits or left)
        points = control_path(program, left.pop(name))
        calls = [point.statement for point in points if isinstance(point.statement, Call)]
        sites += [call.site for call in calls]
    return sites


# Pieces


def _parts_of(node: str, table: CostTable) -> list[Part]:
    calls = [call for call in table.calls if call.node == node]
    if not any(key[0] == node for key in table.kv_full):
        return [Part(name=node, node=node, calls=tuple(calls))]
    most: dict[str, float] = {}
    for call in calls:
        most[call.walk] = max(most.get(call.walk, 0.0), call.runs)
    loops: dict[str, tuple[str, ...]] = {
        walk: (walk,) for walk, runs in most.items() if runs > FEW_RUNS
    }
    ops = {walk: {call.op for call in calls if call.walk == walk} for walk in most}
    for walk in [walk for walk in most if walk not in loops]:
        alike = next((loop for loop in loops if ops[walk] <= ops[loop]), None)
        if alike is not None:
            loops[alike] = (*loops[alike], walk)
    looped = {walk for walks in loops.values() for walk in walks}
    rest = tuple(call for call in calls if call.walk not in looped)
    parts = [Part(name=node, node=node, calls=rest)] if rest else []
    for walk, walks in loops.items():
        own = [call for call in calls if call.walk in walks]
        aside = _contexts_aside(own, table)
        for context in aside:
            taken = tuple(call for call in own if call.context == context)
            name = f"{node}.{context} in {walk}"
            part = Part(name=name, node=node, walks=(walk,), contexts=(context,), calls=taken)
            parts.append(part)
        left = tuple(call for call in own if call.context not in aside)
        if left:
            name = f"{node} in {walk}" if rest or len(loops) > 1 or aside else node
            parts.append(Part(name=name, node=node, walks=walks, calls=left))
    return parts


def _contexts_aside(calls: Sequence[CallCost], table: CostTable) -> list[str]:
    """Contexts that only branches of a `parallel` use which are not its first one of the node."""
    sites = {call.site: call for call in calls}
    found: dict[str, None] = {}
    beside: set[str] = set()
    for branches in table.parallel:
        own = [[site for site in branch if site in sites] for branch in branches]
        for branch in [branch for branch in own if branch][1:]:
            beside.update(branch)
            found.update({sites[site].context or "": None for site in branch})
    serial = {call.context for call in calls if call.site not in beside}
    return [context for context in found if context and context not in serial]


def _contexts(call: CallCost, table: CostTable) -> list[str]:
    names = {*call.writes, *((call.context,) if call.context else ())}
    return [name for name in sorted(names) if (call.node, name) in table.kv_full]


def _rows_bytes(table: CostTable, node: str, context: str, tp: int, requests: int) -> int:
    share = max(1, min(tp, table.kv_heads.get(node, 0)))
    key = node, context
    return int(max(table.kv_full[key], table.kv_expected[key] * requests) / share)


def _seconds(table: CostTable, calls: Iterable[CallCost], option: Option, batch: int) -> float:
    kind = table.cluster.kinds[option.kind]
    told = table.told_s(kind, option.ranks)
    return sum(
        c.runs * (table.call_s(kind, c.site, option.tp, batch) / option.sp + told) / batch
        for c in calls
    )


def _machine(part: Part) -> str:
    """The machine that runs most of it."""
    runs: dict[str, float] = {}
    for call in part.calls:
        for machine in call.machines[:1]:
            runs[machine] = runs.get(machine, 0.0) + call.runs
    return max(sorted(runs), key=runs.__getitem__) if runs else ""


def _branches(table: CostTable, at: Mapping[str, str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The branch group of each piece that has one, and its calls in it."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for index, branches in enumerate(table.parallel):
        own = [{at[site] for site in branch} for branch in branches]
        pieces = sorted(set().union(*own))
        if len(pieces) < 2:
            continue
        for piece in pieces:
            sites = tuple(s for branch in branches for s in branch if at[s] == piece)
            found.setdefault(piece, (f"parallel {index}", sites))
    return found


def _capacity(kind: DeviceKind) -> int:
    reserve = 0 if kind.is_cpu else int(kind.memory_bytes * RESERVE)
    return kind.memory_bytes - reserve


def _together(program: Program, at: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Pieces that must be on the rank of a stream's ring: what uses an item that may be none.

    Such an item does not travel: its stream is read where its users are, by all of them.
    """
    found: list[tuple[str, ...]] = []
    for machine in program.machines:
        points = control_path(program, machine)
        pulled = {
            name
            for point in points
            if isinstance(point.statement, Pull) and point.statement.or_none
            for name in point.defines
        }
        calls = [(p.statement, p.uses) for p in points if isinstance(p.statement, Call)]
        nodes = {call.node for call, uses in calls if pulled & set(uses)}
        pieces = sorted({at[call.site] for call, _ in calls if call.node in nodes})
        if len(pieces) > 1:
            found.append(tuple(pieces))
    return tuple(found)


# Edges


def _hosts_at(table: CostTable, at: Mapping[str, str]) -> dict[str, str]:
    """The piece that each call of a host node is beside: that of most edges, or any."""
    near: dict[str, dict[str, float]] = {}
    for edge in table.edges:
        for own, other in ((edge.source, edge.target), (edge.target, edge.source)):
            if own not in at and other in at:
                weights = near.setdefault(own, {})
                weights[at[other]] = weights.get(at[other], 0.0) + edge.times
    node_of = {call.site: call.node for call in table.calls}
    by_node: dict[str, dict[str, float]] = {}
    for site, weights in near.items():
        for piece, times in weights.items():
            total = by_node.setdefault(node_of[site], {})
            total[piece] = total.get(piece, 0.0) + times
    anywhere = next(iter(at.values()), "")
    found: dict[str, str] = {}
    for call in table.calls:
        if call.site not in at:
            weights = by_node.get(call.node, {})
            nearest = max(sorted(weights), key=weights.__getitem__) if weights else anywhere
            found[call.site] = nearest
    return found


def _edges(table: CostTable, at: Mapping[str, str], requests: int) -> tuple[Edge, ...]:
    kind = table.cluster.kind
    lost: dict[tuple[str, str], float] = {}
    busy: dict[tuple[str, str], float] = {}

    def add(source: str, target: str, times: float, size: float, *, waits: bool) -> None:
        a, b = sorted((at[source], at[target]))
        if a == b:
            return
        taken = size / kind.link_bytes_per_s
        lost[a, b] = lost.get((a, b), 0.0) + times * (taken + (kind.hop_s if waits else 0.0))
        busy[a, b] = busy.get((a, b), 0.0) + times * (taken + kind.hop_s / requests)

    for edge in table.edges:
        # A context travels with the values of a hop: no message of its own.
        add(edge.source, edge.target, edge.times, edge.bytes, waits=edge.context is None)
    for stream in table.streams:
        if stream.source is not None and stream.target is not None and stream.items:
            size = stream.bytes / stream.items
            add(stream.source, stream.target, stream.items, size, waits=True)
    return tuple(Edge(a=a, b=b, lost_s=lost[a, b], busy_s=busy[a, b]) for a, b in sorted(lost))

"""Seconds: of a node's work in one request, and of a step of the control path over ranks.

The model is small on purpose. A call reads its node's weights once and does the FLOPs that its op
declares (`cost { flops = … }`); the slower of the two is its time. A hop takes the device's
latency and the bytes of what the next call is given over the link. A host op takes `HOST_CALL_S`.
Weights of unknown size count as `UNKNOWN_WEIGHT_BYTES`.
"""

from collections.abc import Mapping

from mstarc.analysis.control import Point, control_path
from mstarc.analysis.rates import expected_runs
from mstarc.analysis.sizes import bytes_of_type, weight_bytes
from mstarc.deployment import DeviceKind
from mstarc.ir.graph import Call, Engine, Program
from mstarc.ir.walking import all_statements
from mstarc.records import dataclass

HOST_CALL_S = 1e-3
UNKNOWN_WEIGHT_BYTES: Mapping[Engine, int] = {
    "kv_cache": 2 * 10**9,
    "stateless": 2 * 10**8,
    "host": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """`load_s`: a request's seconds of each node. `edge_s`: seconds when two nodes are apart.

    An edge is a pair of nodes in the order of the program, called one after the other.
    """

    load_s: Mapping[str, float]
    weight_bytes: Mapping[str, int]
    edge_s: Mapping[tuple[str, str], float]


def costs_of(program: Program, kind: DeviceKind, measured: Mapping[str, int]) -> Costs:
    """The costs of a program on devices of one kind."""
    nodes = {node.name: node for node in program.nodes}
    runs = expected_runs(program)
    sizes = {
        name: UNKNOWN_WEIGHT_BYTES[node.engine] if size is None else size
        for name, node in nodes.items()
        for size in (weight_bytes(node, measured),)
    }
    load = dict.fromkeys(nodes, 0.0)
    for call in (s for s in all_statements(program) if isinstance(s, Call)):
        op = next(op for op in nodes[call.node].ops if op.name == call.op)
        seconds = HOST_CALL_S
        if nodes[call.node].engine != "host":
            flops = dict(op.cost).get("flops", 0.0)
            seconds = max(
                sizes[call.node] / kind.bandwidth_bytes_per_s, flops / kind.matrix_flops_per_s
            )
        load[call.node] += runs.get(call.site, 0.0) * seconds
    order = {name: index for index, name in enumerate(nodes)}
    edges: dict[tuple[str, str], float] = {}
    pairs = call_edges(program)
    arrivals: dict[str, float] = {}
    for before, after in pairs:
        arrivals[after.site] = arrivals.get(after.site, 0.0) + runs.get(before.site, 0.0)
    for before, after in pairs:
        if before.node == after.node:
            continue
        a, b = sorted((before.node, after.node), key=order.__getitem__)
        op = next(op for op in nodes[after.node].ops if op.name == after.op)
        given = sum(bytes_of_type(parameter.type) or 0 for parameter in op.parameters)
        # A call is reached once a run, from each of those before it by its share.
        share = runs.get(before.site, 0.0) / (arrivals[after.site] or 1.0)
        times = min(runs.get(before.site, 0.0), runs.get(after.site, 0.0) * share)
        seconds = times * (kind.hop_s + given / kind.link_bytes_per_s)
        edges[a, b] = edges.get((a, b), 0.0) + seconds
    return Costs(load_s=load, weight_bytes=sizes, edge_s=edges)


def call_edges(program: Program) -> list[tuple[Call, Call]]:
    """Pairs of calls that may follow one another in a machine, each pair once, in path order."""
    pairs: dict[tuple[str, str], tuple[Call, Call]] = {}
    for machine in program.machines:
        points = control_path(program, machine)
        for point in points:
            if isinstance(point.statement, Call):
                for after in _next_calls(points, point):
                    pairs.setdefault((point.statement.site, after.site), (point.statement, after))
    return list(pairs.values())


def _next_calls(points: list[Point], start: Point) -> list[Call]:
    found: list[Call] = []
    seen: set[int] = set()
    pending = list(reversed(start.next))
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        statement = points[index].statement
        if isinstance(statement, Call):
            found.append(statement)
        else:
            pending.extend(reversed(points[index].next))
    return found

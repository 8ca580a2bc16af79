"""Seconds: of a node's work in one request, and of a step of the control path over ranks.

What a request alone costs on devices of one kind, each node whole, by the numbers of
`analysis.cost_table`.
"""

from collections.abc import Mapping

from mstarc.analysis.control import Point, control_path
from mstarc.analysis.cost_table import cost_table
from mstarc.analysis.memory import Limits
from mstarc.analysis.op_costs import Profile
from mstarc.deployment import DeviceKind, Devices
from mstarc.ir.graph import Call, Program
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """`load_s`: a request's seconds of each node. `edge_s`: seconds when two nodes are apart.

    An edge is a pair of nodes in the order of the program, called one after the other.
    """

    load_s: Mapping[str, float]
    weight_bytes: Mapping[str, int]
    edge_s: Mapping[tuple[str, str], float]


def costs_of(
    program: Program,
    kind: DeviceKind,
    measured: Mapping[str, int],
    profile: Profile | None = None,
) -> Costs:
    """The costs of a program on devices of one kind."""
    table = cost_table(
        program,
        Devices(name=kind.name, parts=((kind, 1),)),
        Limits(requests=1, tokens=kind.max_tokens),
        measured=measured,
        profile=profile,
    )
    load = dict.fromkeys(table.order, 0.0)
    for call in table.calls:
        load[call.node] += call.runs * table.call_s(kind, call.site, 1, 1)
    node_of = {call.site: call.node for call in table.calls}
    order = {name: index for index, name in enumerate(table.order)}
    edges: dict[tuple[str, str], float] = {}
    for edge in table.edges:
        nodes = node_of[edge.source], node_of[edge.target]
        if edge.context is not None or nodes[0] == nodes[1]:
            continue
        a, b = sorted(nodes, key=order.__getitem__)
        seconds = edge.times * (kind.hop_s + edge.bytes / kind.link_bytes_per_s)
        edges[a, b] = edges.get((a, b), 0.0) + seconds
    return Costs(load_s=load, weight_bytes=table.weights, edge_s=edges)


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

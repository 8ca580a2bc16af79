"""Put every node on a rank.

Before:  %token: i64 = lm.prefill(%ids) on main #start/0
After:   %token: i64 = lm.prefill(%ids) on main ranks [0] #start/0
         placement "2xcpu" by "automatic" requests 8 tokens 2048 {
           device 0 "cpu" bytes 34359738368
           device 1 "cpu" bytes 34359738368
           assign frontend ranks [0]
           assign lm ranks [0]
           assign codec ranks [1]
         }

By a deployment file, or by itself: then an exact search (`analysis.placement_search`) over the
costs of `analysis.costs`. A node of engine `host` goes with the node of another engine that it
would lose most time apart from. Afterwards each call has ranks, each rank has a device, and
`ir.verify` requires both. Each node is whole on one rank: replicas, tensor parallel, contexts on
ranks of their own and ranks by walk are refused (MS0615).

Not here: what crosses ranks (partition), and whether everything fits to the byte (plan-memory).
"""

from dataclasses import replace

from mstarc.analysis.costs import Costs, costs_of
from mstarc.analysis.memory import Limits, limits_of, node_bytes
from mstarc.analysis.placement_search import Problem, search
from mstarc.deployment import Devices, parse_devices
from mstarc.deployment.layout import resolve_layout
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.ir.decisions import Assignment, Device, Placement
from mstarc.ir.graph import Call, Program, Statement
from mstarc.ir.walking import map_bodies, map_statements
from mstarc.passes.context import PassContext


def place(program: Program, context: PassContext) -> Program:
    """The program with its placement, and the ranks of each call."""
    devices = _devices(context)
    limits = limits_of(context.deployment, devices.kind)
    costs = costs_of(program, devices.kind, context.weight_bytes)
    if context.deployment is not None:
        layout = resolve_layout(context.deployment, program, devices.count, context.sink)
        if layout is None:
            return program
        ranks = {name: on[0] for name, on in layout.items()}
    else:
        found = _search(program, context, devices, limits, costs)
        if found is None:
            return program
        ranks = found
    ranks = _with_hosts(program, ranks, costs)
    _report_idle(program, devices, ranks, context)
    deployment = context.deployment
    placement = Placement(
        name=devices.name if deployment is None else deployment.name,
        devices=tuple(
            Device(rank=rank, kind=devices.kind.name, memory_bytes=devices.kind.memory_bytes)
            for rank in range(devices.count)
        ),
        assignments=tuple(
            Assignment(node=node.name, ranks=(ranks[node.name],)) for node in program.nodes
        ),
        source="automatic" if deployment is None else deployment.path,
        max_requests=limits.requests,
        max_tokens=limits.tokens,
    )

    def on_its_rank(statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return replace(statement, ranks=(ranks[statement.node],))
        return statement

    placed = map_bodies(program, lambda body: map_statements(body, on_its_rank))
    return replace(placed, placement=placement)


def _devices(context: PassContext) -> Devices:
    if context.devices is not None:
        return context.devices
    deployment = context.deployment
    if deployment is None:
        devices = parse_devices("cpu")
    else:
        devices = deployment.devices or parse_devices(f"{deployment.rank_count}xcpu")
    assert devices is not None
    return devices


def _search(
    program: Program, context: PassContext, devices: Devices, limits: Limits, costs: Costs
) -> dict[str, int] | None:
    nodes = [node for node in program.nodes if node.engine != "host"]
    sizes = {
        node.name: node_bytes(program, node, devices.kind, limits, context.weight_bytes)
        for node in nodes
    }
    problem = Problem(
        nodes=[node.name for node in nodes],
        ranks=devices.count,
        load_s=costs.load_s,
        edge_s=costs.edge_s,
        bytes_of={name: weights + pages for name, (weights, pages) in sizes.items()},
        capacity_bytes=devices.kind.memory_bytes,
    )
    ranks = search(problem)
    if ranks is None:
        _report_full(program, context.sink, devices, limits, sizes)
    return ranks


def _report_full(
    program: Program,
    sink: DiagnosticSink,
    devices: Devices,
    limits: Limits,
    sizes: dict[str, tuple[int, int]],
) -> None:
    rows = [
        f"{name}: {_gigabytes(weights)} of weights, {_gigabytes(pages)} of KV pages"
        for name, (weights, pages) in sizes.items()
    ]
    total = sum(weights + pages for weights, pages in sizes.values())
    largest = max(sizes, key=lambda name: sum(sizes[name]))
    span = next(node.span for node in program.nodes if node.name == largest)
    there = f"{devices.count} times {_gigabytes(devices.kind.memory_bytes)}"
    label = f"the largest node takes {_gigabytes(sum(sizes[largest]))} on one rank"
    diagnostic = Diagnostic(
        code="MS0617",
        message=f"`{program.model}` does not fit on {devices.name}",
        primary=Label(span=span, text=label),
        notes=(*rows, f"together {_gigabytes(total)}; there are {there}"),
        helps=(
            f"pages are for {limits.requests} requests of {limits.tokens} rows: lower "
            "`max_concurrent_requests` or `max_seq_len` in a deployment file, or use more or "
            "larger devices",
        ),
    )
    sink.report(diagnostic)


def _gigabytes(size: int) -> str:
    return f"{size / 10**9:.2f} GB"


def _with_hosts(program: Program, ranks: dict[str, int], costs: Costs) -> dict[str, int]:
    """The ranks of all nodes: a host node without one goes with its nearest neighbour."""
    result = dict(ranks)
    for host in (node.name for node in program.nodes if node.name not in ranks):
        others = {a if b == host else b: s for (a, b), s in costs.edge_s.items() if host in (a, b)}
        near = [node.name for node in program.nodes if node.name in others and node.name in ranks]
        nearest = max(near, key=others.__getitem__) if near else next(iter(ranks), None)
        result[host] = ranks[nearest] if nearest is not None else 0
    return result


def _report_idle(
    program: Program, devices: Devices, ranks: dict[str, int], context: PassContext
) -> None:
    deployment = context.deployment
    span = deployment.groups_span if deployment is not None else program.nodes[0].span
    idle = [rank for rank in range(devices.count) if rank not in ranks.values()]
    if not idle:
        return
    listed = ", ".join(map(str, idle))
    plural = "s" if len(idle) > 1 else ""
    message = f"rank{plural} {listed} of {devices.name} {'have' if plural else 'has'} nothing to do"
    diagnostic = Diagnostic(
        code="MS0618",
        message=message,
        primary=Label(span=span, text=f"{_holders(len(set(ranks.values())))} all nodes"),
        helps=("use fewer devices: a rank without a node still starts a process",),
    )
    context.sink.report(diagnostic)


def _holders(count: int) -> str:
    return "one rank holds" if count == 1 else f"{count} ranks hold"

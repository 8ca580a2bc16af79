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

By a deployment file, or by itself: then an exact search (`analysis.placement`) by an objective. A
node of engine `host` goes with the node of another engine that it would lose most time apart from.
Both may give a node several assignments, by walk and by context, groups of ranks that hold its
shards, and replicas. Devices are those that a rank or a replica uses. Afterwards each call has the
ranks of the assignment that fits it, and `ir.verify` requires that.

Not here: what crosses ranks (partition), and whether everything fits to the byte (plan-memory).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc.analysis.costs import Costs, call_edges, costs_of
from mstarc.analysis.memory import Limits, limits_of
from mstarc.deployment import Deployment, Devices, parse_devices
from mstarc.deployment.layout import resolve_layout
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.ir.decisions import Assignment, Copy, Device, Placement, fitting
from mstarc.ir.graph import Call, Program, Statement
from mstarc.ir.walking import Body, bodies_of, map_statements, statements_of
from mstarc.passes.context import PassContext

if TYPE_CHECKING:
    from mstarc.analysis.placement.choose import Choice


def place(program: Program, context: PassContext) -> Program:
    """The program with its placement, and the ranks of each call."""
    if context.placement is not None:
        return placed_on(program, context.placement)
    devices = _devices(context)
    limits = limits_of(context.numbers, devices.kind)
    copies: tuple[Copy, ...]
    if context.deployment is not None:
        layout = resolve_layout(context.deployment, program, devices.count, context.sink)
        if layout is None:
            return program
        assignments, copies = layout.assignments, layout.copies
    else:
        from mstarc.analysis.placement.choose import choose  # loaded here: a deployment has chosen

        choice = choose(
            program,
            devices,
            limits,
            objective=context.objective,
            measured=context.weight_bytes,
            kept=context.kept_bytes,
            profile=context.profile,
            mix=context.mix,
        )
        if choice is not None and not choice.requests:
            _report_full(program, context.sink, devices, limits, choice)
            return program
        assignments = choice.chosen.assignments if choice is not None else ()
        copies = choice.chosen.copies if choice is not None else ()
    deployment = context.deployment
    placement = Placement(
        name=devices.name if deployment is None else deployment.name,
        devices=(),
        assignments=_with_hosts(
            program,
            assignments,
            lambda: costs_of(program, devices.kind, context.weight_bytes),
        ),
        copies=copies,
        source="automatic" if deployment is None else deployment.path,
        max_requests=limits.requests * _requests_for(deployment, copies),
        max_tokens=limits.tokens,
        stretch=limits.stretch,
        prefill_tokens=limits.prefill_tokens,
    )
    used = sorted({*placement.ranks, *(copy.device for copy in copies)})
    _report_idle(program, devices, used, context)
    return placed_on(program, replace(placement, devices=_used(devices, used)))


def _requests_for(deployment: Deployment | None, copies: tuple[Copy, ...]) -> int:
    """How many times the usual requests run at once: a replica serves as many of its own.

    A deployment's `max_concurrent_requests` is of all replicas together.
    """
    if deployment is not None and deployment.max_requests is not None:
        return 1
    return 1 + max((copy.copy for copy in copies), default=0)


def placed_on(program: Program, placement: Placement) -> Program:
    """The program with a placement, and with the ranks of each call."""

    def on_its_ranks(walk: str, body: Body) -> Body:
        def placed(statement: Statement) -> Statement:
            if not isinstance(statement, Call):
                return statement
            group = placement.assignment(statement.node, walk, statement.context)
            return replace(statement, ranks=group.ranks)

        return map_statements(body, placed)

    walks = tuple(replace(walk, body=on_its_ranks(walk.name, walk.body)) for walk in program.walks)
    machines = tuple(
        replace(
            machine,
            states=tuple(
                replace(state, body=on_its_ranks(f"{machine.name}.{state.name}", state.body))
                for state in machine.states
            ),
        )
        for machine in program.machines
    )
    return replace(program, walks=walks, machines=machines, placement=placement)


def _used(devices: Devices, numbers: Sequence[int]) -> tuple[Device, ...]:
    kinds = [(number, devices.device(number)) for number in numbers]
    return tuple(
        Device(rank=number, kind=kind.name, memory_bytes=kind.memory_bytes)
        for number, kind in kinds
    )


def _devices(context: PassContext) -> Devices:
    if context.devices is not None:
        return context.devices
    deployment = context.deployment
    if deployment is None:
        devices = parse_devices("cpu", context.kinds)
    else:
        devices = deployment.devices or parse_devices(
            f"{deployment.rank_count}x{context.default_kind}", context.kinds
        )
    assert devices is not None
    return devices


def _report_full(
    program: Program, sink: DiagnosticSink, devices: Devices, limits: Limits, choice: "Choice"
) -> None:
    """MS0617, with the table of the layout that lacks least."""
    from mstarc.analysis.placement.score import held_by

    layout, problem = choice.layouts[0], choice.model.problem
    held = held_by(problem, layout.homes, len(layout.kinds))
    room = [problem.supply[kind].capacity_bytes for kind in layout.kinds]
    over = [used - size for used, size in zip(layout.bytes_used, room, strict=True)]
    fullest = max(range(len(over)), key=over.__getitem__)
    largest = max(held[fullest], key=held[fullest].__getitem__)
    nodes = {node.name: node for node in program.nodes}
    node = nodes[largest.partition(".")[0]]
    rows = [
        f"rank {number}: {_gigabytes(layout.bytes_used[rank])} of {_gigabytes(room[rank])}: "
        + ", ".join(
            f"{_thing(thing)} {_gigabytes(size)}"
            for thing, size in sorted(held[rank].items(), key=lambda pair: (-pair[1], pair[0]))
        )
        for rank, number in enumerate(choice.chosen.numbers)
    ]
    label = f"{_gigabytes(over[fullest])} too much on the fullest rank; this is the largest part"
    diagnostic = Diagnostic(
        code="MS0617",
        message=f"`{program.model}` does not fit on {devices.name}",
        primary=Label(span=node.span, text=label),
        notes=("of all layouts, this one lacks least:", *rows),
        helps=(
            f"pages are for one request of {limits.tokens} rows: lower `max_seq_len` in a "
            "deployment file, or use more or larger devices",
        ),
    )
    sink.report(diagnostic)


def _thing(name: str) -> str:
    node, _, context = name.partition(".")
    return f"KV pages of {node} ({context})" if context else f"weights and activations of {node}"


def _gigabytes(size: int) -> str:
    return f"{size / 10**9:.2f} GB"


def _with_hosts(
    program: Program, assignments: tuple[Assignment, ...], find_costs: Callable[[], Costs]
) -> tuple[Assignment, ...]:
    """The assignments of all nodes: a host node without one goes with its nearest neighbour."""
    of = {node.name: [a for a in assignments if a.node == node.name] for node in program.nodes}
    hosts = [name for name, found in of.items() if not found]
    edges = find_costs().edge_s if hosts else {}
    for host in hosts:
        others = {a if b == host else b: s for (a, b), s in edges.items() if host in (a, b)}
        near = [name for name in of if name in others and name not in hosts]
        nearest = max(near, key=others.__getitem__) if near else None
        rank = _rank_beside(program, assignments, host, nearest)
        of[host] = [Assignment(node=host, ranks=(rank,))]
    return tuple(assignment for found in of.values() for assignment in found)


def _rank_beside(
    program: Program, assignments: tuple[Assignment, ...], host: str, nearest: str | None
) -> int:
    """The rank of the call of `nearest` that follows `host`, or that it follows."""
    if nearest is None:
        return assignments[0].ranks[0] if assignments else 0
    walk_of = {
        call.site: walk
        for walk, body in bodies_of(program)
        for call in statements_of(body)
        if isinstance(call, Call)
    }
    calls = [
        call
        for pair in call_edges(program)
        if host in (pair[0].node, pair[1].node)
        for call in pair
        if call.node == nearest
    ]
    placed = [a for a in assignments if a.node == nearest]
    return fitting(placed, walk_of[calls[0].site], calls[0].context).ranks[0]


def _report_idle(
    program: Program, devices: Devices, used: Sequence[int], context: PassContext
) -> None:
    deployment = context.deployment
    if deployment is not None and deployment.devices is None and context.devices is None:
        return  # the file names ranks and no devices: those between are others'
    span = deployment.groups_span if deployment is not None else program.nodes[0].span
    idle = [rank for rank in range(devices.count) if rank not in used]
    if not idle:
        return
    listed = ", ".join(map(str, idle))
    plural = "s" if len(idle) > 1 else ""
    message = f"rank{plural} {listed} of {devices.name} {'have' if plural else 'has'} nothing to do"
    diagnostic = Diagnostic(
        code="MS0618",
        message=message,
        primary=Label(span=span, text=f"{_holders(len(used))} all nodes"),
        helps=("use fewer devices: no process is started on a rank without a node",),
    )
    context.sink.report(diagnostic)


def _holders(count: int) -> str:
    return "one rank holds" if count == 1 else f"{count} ranks hold"

"""Everything that the cost of a layout is made of, computed once for a program and its devices.

`cost_table` gives seconds of every call for each kind of device, tensor parallel size and batch,
bytes of every edge between calls (values, and KV rows where both use one context), bytes of each
node's weights and of a request's KV rows. A search then adds up numbers: `analysis.estimate` does
so for a whole layout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import ceil

from mstarc.analysis.control import Point, control_path
from mstarc.analysis.device_rows import STEP_ROWS, step_bytes
from mstarc.analysis.lengths import DEFAULT_ROWS, count_of, expected_rows, full_rows, written_by
from mstarc.analysis.memory import Limits
from mstarc.analysis.op_costs import (
    Profile,
    find_op,
    node_weight_bytes,
    rows_of,
    seconds,
    tensor_sizes,
)
from mstarc.analysis.rates import ALL, Taken, expected_runs
from mstarc.analysis.rings import ring_capacity
from mstarc.analysis.sized_calls import rows_by_site
from mstarc.analysis.sizes import bytes_of_type, kv_row_bytes
from mstarc.analysis.traffic import EdgeCost, StreamCost, edges_of, streams_of
from mstarc.deployment import DeviceKind, Devices
from mstarc.ir.graph import Call, Engine, Node, Parallel, Program
from mstarc.ir.walking import bodies_of, statements_of
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What requests look like: rows of a free size (a prompt's), values of options, states.

    `batch` requests run together; None means as many as are admitted. `at_once` run on all copies
    together; None means that each copy has as many as it admits.
    """

    rows: int = DEFAULT_ROWS
    options: Mapping[str, float] = field(default_factory=dict)
    taken: Taken = ALL
    batch: int | None = None
    at_once: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """One call of the program: where it stands, how often it runs in a request.

    `walk` is the walk's name, or `machine.state` for a call in a state.
    """

    site: str
    node: str
    engine: Engine
    op: str
    walk: str
    context: str | None
    machines: tuple[str, ...]
    runs: float
    rows: int
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTable:
    """The parts of a layout's cost.

    - `seconds[kind, site, tp]`: of one call, for each batch in `batches`
    - `weights[node]`: bytes, whole, with what is kept besides
    - `kv_full[node, context]`, `kv_expected[…]`: bytes of KV rows that a request takes, whole, when
      as long as allowed and as expected
    - `held[node]`: bytes that a device which runs the node has besides: activations, and rings,
      registers and rows of fixed contexts for all requests; about what plan-memory counts
    - `kv_heads[node]`: above it a larger `tp` makes a device's share of KV rows no smaller
    - `sizes[node]`: tensor parallel sizes that the node can be cut into
    """

    cluster: Devices
    limits: Limits
    mix: Mix
    batches: tuple[int, ...]
    calls: tuple[CallCost, ...]
    edges: tuple[EdgeCost, ...]
    streams: tuple[StreamCost, ...]
    seconds: Mapping[tuple[str, str, int], tuple[float, ...]]
    weights: Mapping[str, int]
    kv_full: Mapping[tuple[str, str], int]
    kv_expected: Mapping[tuple[str, str], float]
    held: Mapping[str, int]
    kv_heads: Mapping[str, int]
    sizes: Mapping[str, tuple[int, ...]]
    parallel: tuple[tuple[tuple[str, ...], ...], ...]
    order: tuple[str, ...]

    def told_s(self, kind: DeviceKind, ranks: int) -> float:
        """Seconds that a call on so many ranks costs besides, since all but one are told of it."""
        return kind.shard_call_s if ranks > 1 else 0.0

    def call_s(self, kind: DeviceKind, site: str, tp: int, batch: int) -> float:
        """Seconds of one call for `batch` requests: of the next larger batch that is known.

        More than the largest are several calls, one after the other.
        """
        row = self.seconds[kind.name, site, tp]
        for known, taken in zip(self.batches, row, strict=True):
            if known >= batch:
                return taken
        return row[-1] * batch / self.batches[-1]


def cost_table(
    program: Program,
    cluster: Devices,
    limits: Limits,
    *,
    measured: Mapping[str, int] | None = None,
    kept: Mapping[str, int] | None = None,
    profile: Profile | None = None,
    mix: Mix | None = None,
    most_tp: int | None = None,
) -> CostTable:
    """The table of a program on the kinds of devices of a cluster; no call needs ranks."""
    mix = mix or Mix()
    measured = measured or {}
    nodes = {node.name: node for node in program.nodes}
    runs = expected_runs(program, mix.options, mix.taken)
    paths = {machine.name: control_path(program, machine) for machine in program.machines}
    sized = rows_by_site(program, mix.options)
    calls = _calls(program, nodes, runs, paths, mix, sized)
    lengths = expected_rows(
        program, limits.tokens, rows=mix.rows, options=mix.options, taken=mix.taken
    )
    most = mix.batch or batch_of(cluster.kind, limits)
    batches = tuple(sorted({min(1 << n, most) for n in range(most.bit_length() + 1)}))
    sizes = {name: tensor_sizes(node, most_tp or cluster.count) for name, node in nodes.items()}
    taken: dict[tuple[str, str, int], tuple[float, ...]] = {}
    for call in calls:
        node = nodes[call.node]
        op = find_op(node, call.op)
        length = lengths.get((call.node, call.context or ""), 0.0)
        attended = ceil(length / 2) if call.writes else ceil(length)
        for kind in cluster.kinds:
            for tp in sizes[call.node]:
                taken[kind.name, call.site, tp] = tuple(
                    seconds(
                        node,
                        op,
                        kind,
                        batch=batch,
                        rows=sized.get(call.site, mix.rows),
                        context_rows=attended,
                        tp=tp,
                        measured=measured,
                        profile=profile,
                    )
                    for batch in batches
                )
    streams = streams_of(program, runs, paths, mix.rows)
    dtype = cluster.kind.dtype
    full: dict[tuple[str, str], int] = {}
    expected: dict[tuple[str, str], float] = {}
    for node in program.nodes:
        row = kv_row_bytes(node, dtype) or 0 if node.engine == "kv_cache" else 0
        if not row:
            continue
        fixed = {context.name for context in node.contexts if context.cross is not None}
        for context, rows in full_rows(program, node, limits.tokens).items():
            if context in fixed:
                continue
            full[node.name, context] = rows * row
            expected[node.name, context] = lengths[node.name, context] * row
    return CostTable(
        cluster=cluster,
        limits=limits,
        mix=mix,
        batches=batches,
        calls=calls,
        edges=edges_of(nodes, runs, paths, mix.rows, expected),
        streams=streams,
        seconds=taken,
        weights={
            name: node_weight_bytes(node, measured) + (kept or {}).get(name, 0)
            for name, node in nodes.items()
        },
        kv_full=full,
        kv_expected=expected,
        held=_held(program, nodes, calls, streams, limits, cluster.kind),
        kv_heads={name: _heads(node) for name, node in nodes.items()},
        sizes=sizes,
        parallel=_parallel(program),
        order=tuple(nodes),
    )


def batch_of(kind: DeviceKind, limits: Limits) -> int:
    """Requests of a step when many run. On CPUs, where runs repeat to the bit, they go alone."""
    return 1 if kind.is_cpu else limits.requests


def _calls(
    program: Program,
    nodes: Mapping[str, Node],
    runs: Mapping[str, float],
    paths: Mapping[str, list[Point]],
    mix: Mix,
    sized: Mapping[str, int],
) -> tuple[CallCost, ...]:
    machines: dict[str, list[str]] = {}
    for name, points in paths.items():
        for point in points:
            if isinstance(point.statement, Call):
                found = machines.setdefault(point.statement.site, [])
                if name not in found:
                    found.append(name)
    calls: list[CallCost] = []
    for walk, body in bodies_of(program):
        for statement in statements_of(body):
            if not isinstance(statement, Call):
                continue
            node = nodes[statement.node]
            op = find_op(node, statement.op)
            calls.append(
                CallCost(
                    site=statement.site,
                    node=statement.node,
                    engine=node.engine,
                    op=statement.op,
                    walk=walk,
                    context=statement.context,
                    machines=tuple(machines.get(statement.site, ())),
                    runs=runs.get(statement.site, 0.0),
                    rows=rows_of(op, sized.get(statement.site, mix.rows)),
                    writes=tuple(written_by(node, op, statement)),
                )
            )
    return tuple(calls)


def _parallel(program: Program) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """The sites of the calls of each branch, of every `parallel` of the walks."""
    return tuple(
        tuple(
            tuple(s.site for s in statements_of(branch) if isinstance(s, Call))
            for branch in statement.branches
        )
        for walk in program.walks
        for statement in statements_of(walk.body)
        if isinstance(statement, Parallel)
    )


def _held(
    program: Program,
    nodes: Mapping[str, Node],
    calls: Sequence[CallCost],
    streams: Sequence[StreamCost],
    limits: Limits,
    kind: DeviceKind,
) -> dict[str, int]:
    base: dict[str, int] = dict.fromkeys(nodes, 0)
    each: dict[str, int] = dict.fromkeys(nodes, 0)
    registers: dict[str, int] = dict.fromkeys(nodes, 0)
    at = {call.site: call.node for call in calls}
    rows = min(limits.tokens, STEP_ROWS)
    for call in calls:
        node = nodes[call.node]
        op = find_op(node, call.op)
        if node.engine != "host":
            once, more = step_bytes(node, op, kind.dtype, rows)
            base[node.name] = max(base[node.name], once)
            each[node.name] = max(each[node.name], more)
        # In a region of an accelerator what a call gives is kept once more.
        given = sum(bytes_of_type(result.type) or 0 for result in op.results)
        registers[node.name] += given if kind.is_cpu else 2 * given
    for stream, cost in zip(program.streams, streams, strict=True):
        if cost.target is not None:
            size = bytes_of_type(stream.item) or 0
            held = size * ring_capacity(program, stream, limits.tokens)
            registers[at[cost.target]] += held
    for node in program.nodes:
        fixed = sum(c.cross * count_of(program, c) for c in node.contexts if c.cross is not None)
        registers[node.name] += fixed * (kv_row_bytes(node, kind.dtype) or 0)
    return {name: base[name] + limits.requests * (each[name] + registers[name]) for name in nodes}


def _heads(node: Node) -> int:
    value = getattr(dict(node.kv).get("heads"), "value", 0)
    return value if isinstance(value, int) else 0

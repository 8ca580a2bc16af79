"""Count what each rank's memory is for, and refuse what does not fit.

Before:  node lm : kv_cache { kv { layers = 28, heads = 8, head_dim = 128 } context main … }
After:   pool rank 0 lm pages 1024 page_tokens 16 page_bytes 3670016
         memory rank 0 weights "lm" 6600000000
         memory rank 0 kv_pages "lm" 3758096384

Rows, with the requests that may run at once (`requests`) and the rows that a context of one may
hold (`tokens`), both of the placement:

    weights     measured, else declared; a node of unknown size has no row
    kv_pages    pages of a node: ceil(tokens / page_tokens) a context and request, and n rows for
                `cross(n)`; or as many as the deployment's `kv_cache` says
    rings       capacity of a stream, its item's bytes, requests; on the consumer's rank
    registers   what calls on the rank give, for each request
    graph_pool  on an accelerator: what the calls of each region give, at the largest bucket
    staging     what hops carry from or to the rank, for each request, twice
    reserve     on an accelerator, 5 % of its memory: libraries, fragments, activations

Sizes that only the run knows count as nothing; a row of nothing is left out. Afterwards every
kv_cache node has a pool on its ranks, and no rank's rows are more than its device holds; else
MS0617 shows the table.
"""

from dataclasses import replace

from mstarc.analysis.control import first_call
from mstarc.analysis.memory import limits_of, pages_of
from mstarc.analysis.sizes import bytes_of_type, kv_row_bytes, weight_bytes
from mstarc.deployment import DeviceKind, device_kind
from mstarc.diagnostics import Diagnostic, Label
from mstarc.ir.decisions import Device, MemoryRow, PagePool, Placement
from mstarc.ir.graph import Call, Program
from mstarc.ir.walking import all_statements
from mstarc.passes.context import PassContext

RESERVE = 0.05


def plan_memory(program: Program, context: PassContext) -> Program:
    """The program with its page pools and the memory table of each rank."""
    placement = program.placement
    assert placement is not None
    kind = device_kind(placement.devices[0].kind)
    assert kind is not None
    pools = _pools(program, placement, kind, context)
    rows = [
        *_weights(program, placement, context),
        *(
            MemoryRow(
                rank=pool.rank,
                what="kv_pages",
                of=pool.node,
                bytes=pool.pages * pool.bytes_per_page,
            )
            for pool in pools
        ),
        *_rings(program, placement),
        *_registers(program, placement),
        *_graph_pools(program, kind),
        *_staging(program, placement),
        *_reserve(placement, kind),
    ]
    memory = tuple(sorted((row for row in rows if row.bytes), key=lambda row: row.rank))
    for device in placement.devices:
        taken = sum(row.bytes for row in memory if row.rank == device.rank)
        if taken > device.memory_bytes:
            _report(program, device, placement, memory, context)
    return replace(program, pools=tuple(pools), memory=memory)


def _pools(
    program: Program, placement: Placement, kind: DeviceKind, context: PassContext
) -> list[PagePool]:
    limits = replace(
        limits_of(context.deployment, kind),
        requests=placement.max_requests,
        tokens=placement.max_tokens,
    )
    nodes = {node.name: node for node in program.nodes if node.engine == "kv_cache"}
    pools: list[PagePool] = []
    for assignment in placement.assignments:
        if assignment.node not in nodes:
            continue
        node = nodes[assignment.node]
        row = kv_row_bytes(node, kind.dtype)
        assert row is not None, f"`kv` of `{node.name}` gives no layers, heads and head_dim"
        pools.extend(
            PagePool(
                rank=rank,
                node=node.name,
                pages=pages_of(program, node, limits),
                page_tokens=limits.page_tokens,
                bytes_per_page=limits.page_tokens * row,
            )
            for rank in assignment.ranks
        )
    return sorted(pools, key=lambda pool: pool.rank)


def _weights(program: Program, placement: Placement, context: PassContext) -> list[MemoryRow]:
    sizes = {node.name: weight_bytes(node, context.weight_bytes) for node in program.nodes}
    return [
        MemoryRow(rank=rank, what="weights", of=assignment.node, bytes=size)
        for assignment in placement.assignments
        for size in (sizes[assignment.node],)
        if size
        for rank in assignment.ranks
    ]


def _rings(program: Program, placement: Placement) -> list[MemoryRow]:
    rows: list[MemoryRow] = []
    for stream in program.streams:
        item = bytes_of_type(stream.item) or 0
        size = item * (stream.capacity or 0) * placement.max_requests
        rank = _rank_of_machine(program, stream.consumer)
        rows.append(MemoryRow(rank=rank, what="rings", of=stream.name, bytes=size))
    return rows


def _rank_of_machine(program: Program, name: str) -> int:
    """The rank where a machine starts: that of its first call."""
    machine = next(machine for machine in program.machines if machine.name == name)
    call = first_call(program, [s for state in machine.states for s in state.body])
    return call.ranks[0] if call is not None else 0


def _registers(program: Program, placement: Placement) -> list[MemoryRow]:
    sizes: dict[int, int] = {}
    for call in _calls(program):
        for value in call.results:
            size = bytes_of_type(value.type) if value is not None else None
            for rank in call.ranks:
                sizes[rank] = sizes.get(rank, 0) + (size or 0)
    return [
        MemoryRow(rank=rank, what="registers", of="values", bytes=size * placement.max_requests)
        for rank, size in sizes.items()
    ]


def _calls(program: Program) -> list[Call]:
    return [statement for statement in all_statements(program) if isinstance(statement, Call)]


def _graph_pools(program: Program, kind: DeviceKind) -> list[MemoryRow]:
    if kind.name == "cpu":
        return []
    calls = {call.site: call for call in _calls(program)}
    rows: list[MemoryRow] = []
    for region in program.regions:
        values = [value for site in region.sites for value in calls[site].results]
        size = sum(bytes_of_type(value.type) or 0 for value in values if value is not None)
        total = size * region.buckets[-1]
        rows.append(MemoryRow(rank=region.rank, what="graph_pool", of=region.name, bytes=total))
    return rows


def _staging(program: Program, placement: Placement) -> list[MemoryRow]:
    sizes: dict[int, int] = {}
    for hop in program.hops:
        for rank in (hop.source_rank, hop.target_rank):
            # Twice: one is filled while the other is sent.
            size = 2 * (hop.bytes_each or 0) * placement.max_requests
            sizes[rank] = sizes.get(rank, 0) + size
    return [
        MemoryRow(rank=rank, what="staging", of="hops", bytes=size) for rank, size in sizes.items()
    ]


def _reserve(placement: Placement, kind: DeviceKind) -> list[MemoryRow]:
    if kind.name == "cpu":
        return []
    return [
        MemoryRow(
            rank=device.rank,
            what="reserve",
            of="libraries",
            bytes=int(device.memory_bytes * RESERVE),
        )
        for device in placement.devices
    ]


def _report(
    program: Program,
    device: Device,
    placement: Placement,
    memory: tuple[MemoryRow, ...],
    context: PassContext,
) -> None:
    rows = [row for row in memory if row.rank == device.rank]
    taken = sum(row.bytes for row in rows)
    largest = max(rows, key=lambda row: row.bytes)
    span = next(
        (node.span for node in program.nodes if node.name == largest.of), program.nodes[0].span
    )
    over = taken - device.memory_bytes
    table = [
        f"{row.what.replace('_', ' ')} of {row.of}: {row.bytes / 10**9:.3f} GB"
        for row in sorted(rows, key=lambda row: -row.bytes)
    ]
    help_ = (
        f"pages are for {placement.max_requests} requests of {placement.max_tokens} rows: lower "
        "`max_concurrent_requests` or `max_seq_len` in a deployment file, or use more ranks"
    )
    diagnostic = Diagnostic(
        code="MS0617",
        message=f"rank {device.rank} of {placement.name} takes {taken / 10**9:.3f} GB of "
        f"{device.memory_bytes / 10**9:.3f} GB",
        primary=Label(span=span, text=f"{over / 10**9:.3f} GB too much; this is the largest part"),
        notes=tuple(table),
        helps=(help_,),
    )
    if context.deployment is not None:
        for number, what in (
            (context.deployment.max_requests, "requests at once"),
            (context.deployment.max_seq_len, "rows each"),
        ):
            if number is not None:
                diagnostic = diagnostic.label(number.span, f"room for {number.value} {what}")
    context.sink.report(diagnostic)

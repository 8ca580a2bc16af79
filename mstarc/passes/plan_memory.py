"""Count what each device's memory is for, and size the pools of KV pages with what is left.

Before:  node lm : kv_cache { kv { layers = 28, heads = 8, head_dim = 128 } context main … }
After:   pool rank 0 lm pages 32768 page_tokens 16 page_bytes 1835008
         memory rank 0 weights "lm" 6600000000 by "declared"
         memory rank 0 kv_pages "lm" 60129542144
         capacity asked 64 full 64 expected 64 rank 0

Rows, by device: everything that shares one is counted together, ranks, followers and replicas.

    weights      measured, else declared, else a guess by the engine; a tp-th on each rank
    kept         what a node keeps besides, as a file of sizes says; a tp-th on each rank
    kv_pages     of a node: what is left, up to as much as all requests at their longest take
    cross_rows   contexts of a fixed length, for each request
    rings        capacity of a stream, its item's bytes, for each request; on the consumer's rank
    registers    what calls on the rank give, for each request
    graph_pool   on an accelerator: what the calls of each region give, at the largest bucket
    staging      what hops carry, for each request, twice; one context at its longest where KV rows
                 travel
    activations  what the largest step has at once
    reserve      on an accelerator, 5 % of its memory for libraries and fragments, and 0.6 GB for
                 each further process

Sizes that only the run knows count as nothing; a row of nothing is left out.

How many requests are let in is computed: as many as were asked for, as long as each has pages for
an expected request (options at their defaults) and one of them for its longest. Pages that a
deployment lends to host memory count for the first. Then the slots, and with them the buckets of
regions, are no more than that. Where a deployment says how many pages there are, they are not sized
here.

Afterwards every kv_cache node has a pool on its ranks, a pool has room for a request at its
longest, and no device's rows are more than it holds; else MS0617 shows the table.
"""

from dataclasses import replace

from mstarc.analysis.device_rows import Row, device_rows
from mstarc.analysis.memory import (
    DeviceNeed,
    Limits,
    PoolNeed,
    instances,
    limits_of,
    pages_of,
    pool_needs,
)
from mstarc.analysis.op_costs import node_weight_bytes
from mstarc.analysis.sizes import weight_bytes
from mstarc.deployment import DeviceKind
from mstarc.diagnostics import Diagnostic, Label
from mstarc.ir.decisions import Capacity, Device, MemoryKind, MemoryRow, PagePool, Placement
from mstarc.ir.graph import Program
from mstarc.passes.context import PassContext
from mstarc.passes.find_capture_regions import buckets_for

_ORDER: tuple[MemoryKind, ...] = (
    "weights",
    "kept",
    "kv_pages",
    "cross_rows",
    "rings",
    "registers",
    "graph_pool",
    "staging",
    "activations",
    "reserve",
)


def plan_memory(program: Program, context: PassContext) -> Program:
    """The program with its page pools, the memory table of each device, and its capacity."""
    placement = program.placement
    assert placement is not None
    kind = context.kind(placement.devices[0].kind)
    limits = replace(
        limits_of(context.numbers, kind),
        # Run again, the pass counts for those that were asked for, not for those that fit.
        requests=placement.max_requests if program.capacity is None else program.capacity.asked,
        tokens=placement.max_tokens,
    )
    pools = pool_needs(program, placement, limits, kind)
    weights = _weights(program, placement, context)
    rows = list(device_rows(program, placement, kind))
    needs = [
        _need(device, context.kind(device.kind), pools, weights, rows)
        for device in placement.devices
    ]
    capacity = _capacity(needs, limits)
    slots = max(capacity.expected, 1)
    pages = _pages(pools, needs, slots, limits)
    memory = _table(program, placement, weights, rows, _page_rows(pools, pages), slots)
    for device in placement.devices:
        taken = sum(row.bytes for row in memory if row.rank == device.rank)
        if taken > device.memory_bytes:
            _report(program, device, placement, memory, limits, context)
    if limits.pages is not None:
        _check_pages(pools, limits, context)
    _report_fewer(capacity, placement, context)
    return replace(
        program,
        placement=replace(placement, max_requests=slots),
        regions=tuple(
            replace(region, buckets=buckets_for(min(slots, region.buckets[-1])))
            for region in program.regions
        ),
        pools=tuple(
            PagePool(
                rank=rank,
                node=pool.node,
                pages=pages[pool.node, pool.ranks[0]],
                page_tokens=limits.page_tokens,
                bytes_per_page=pool.page_bytes,
            )
            for pool in pools
            for rank in pool.ranks
        ),
        memory=memory,
        capacity=replace(capacity, expected=slots, full=max(capacity.full, 1)),
    )


def _weights(program: Program, placement: Placement, context: PassContext) -> list[MemoryRow]:
    """Rows for each node and device, by the device; guesses where nothing says a size."""
    nodes = {node.name: node for node in program.nodes}
    found: dict[tuple[int, str], MemoryRow] = {}
    kept: dict[tuple[int, str], MemoryRow] = {}
    for assignment, _, device in instances(placement):
        node = nodes[assignment.node]
        by = context.weight_sources.get(node.name, "measured")
        if node.name not in context.weight_bytes:
            by = "declared" if weight_bytes(node, {}) is not None else "guessed"
        size = -(-node_weight_bytes(node, context.weight_bytes) // assignment.tp)
        before = found.get((device, node.name))
        total = size + (before.bytes if before is not None else 0)
        row = MemoryRow(rank=device, what="weights", of=node.name, bytes=total, by=by)
        found[device, node.name] = row
        beside = -(-context.kept_bytes.get(node.name, 0) // assignment.tp)
        others = kept.get((device, node.name))
        if beside:
            total = beside + (others.bytes if others is not None else 0)
            row = MemoryRow(rank=device, what="kept", of=node.name, bytes=total, by="given")
            kept[device, node.name] = row
    return [*found.values(), *kept.values()]


def _need(
    device: Device,
    kind: DeviceKind,
    pools: tuple[PoolNeed, ...],
    weights: list[MemoryRow],
    rows: list[Row],
) -> DeviceNeed:
    here = [pool for pool in pools if device.rank in pool.devices]
    own = [row for row in rows if row.device == device.rank]
    held = sum(row.bytes for row in weights if row.rank == device.rank)
    return DeviceNeed(
        device=device.rank,
        memory_bytes=device.memory_bytes,
        is_cpu=kind.is_cpu,
        base=held + sum(row.bytes for row in own if row.per == "base"),
        a_request=sum(row.bytes for row in own if row.per == "request"),
        pools=tuple(here),
        times={(p.node, p.ranks[0]): p.devices.count(device.rank) for p in here},
    )


def _capacity(needs: list[DeviceNeed], limits: Limits) -> Capacity:
    """How many requests fit on the device that has least room, 0 where not even one does."""
    found: list[tuple[int, int, int]] = []
    for need in needs:
        if limits.pages is not None:
            whole = [limits.pages // pool.full * pool.copies for pool in need.pools]
            usual = [
                (limits.pages + pool.lent) // pool.expected * pool.copies for pool in need.pools
            ]
            most = min([limits.requests, *usual])
            found.append((most, min([most, *whole]), need.device))
            continue
        most = need.most(limits.requests)
        found.append((most, need.most_full(most), need.device))
    expected, _, rank = min(found, key=lambda item: (item[0], item[1], item[2]))
    full = min(count for _, count, _ in found)
    if expected == limits.requests:
        rank = min(found, key=lambda item: (item[1], item[2]))[2]
    return Capacity(asked=limits.requests, full=full, expected=expected, rank=rank)


def _pages(
    pools: tuple[PoolNeed, ...], needs: list[DeviceNeed], slots: int, limits: Limits
) -> dict[tuple[str, int], int]:
    """Pages of each pool: as many as every device that has it can give."""
    if limits.pages is not None:
        return {(pool.node, pool.ranks[0]): limits.pages for pool in pools}
    on_device = {need.device: pages_of(need, slots) for need in needs}
    return {
        key: min(on_device[device][key] for device in pool.devices if device in on_device)
        for pool in pools
        for key in ((pool.node, pool.ranks[0]),)
    }


def _page_rows(
    pools: tuple[PoolNeed, ...], pages: dict[tuple[str, int], int]
) -> dict[tuple[int, str], int]:
    """Bytes of pages by device and node."""
    found: dict[tuple[int, str], int] = {}
    for pool in pools:
        for device in pool.devices:
            size = pages[pool.node, pool.ranks[0]] * pool.page_bytes
            found[device, pool.node] = found.get((device, pool.node), 0) + size
    return found


def _table(
    program: Program,
    placement: Placement,
    weights: list[MemoryRow],
    rows: list[Row],
    pages: dict[tuple[int, str], int],
    slots: int,
) -> tuple[MemoryRow, ...]:
    """The rows of all devices: by device, by what they are for, in the order of the program."""
    sizes: dict[tuple[int, MemoryKind, str], int] = {}
    for row in rows:
        key = row.device, row.what, row.of
        size = row.bytes * (slots if row.per == "request" else 1)
        sizes[key] = sizes.get(key, 0) + size
    found = [
        *weights,
        *(
            MemoryRow(rank=device, what="kv_pages", of=node, bytes=size)
            for (device, node), size in pages.items()
        ),
        *(
            MemoryRow(rank=device, what=what, of=of, bytes=size)
            for (device, what, of), size in sizes.items()
        ),
    ]
    known = {device.rank for device in placement.devices}
    assert all(row.rank in known for row in found), "every process has a device"
    names = [*(node.name for node in program.nodes), *(s.name for s in program.streams)]
    order = {name: index for index, name in enumerate(dict.fromkeys(names))}
    found.sort(key=lambda row: (row.rank, _ORDER.index(row.what), order.get(row.of, len(order))))
    return tuple(row for row in found if row.bytes)


def _check_pages(pools: tuple[PoolNeed, ...], limits: Limits, context: PassContext) -> None:
    """Pages that the deployment fixes must hold a request at its longest: else MS0617."""
    numbers = context.numbers
    assert limits.pages is not None and numbers is not None
    for pool in pools:
        if limits.pages >= pool.full:
            continue
        fixed = numbers.max_pages
        assert fixed is not None
        page = f"{limits.page_tokens} rows"
        diagnostic = Diagnostic(
            code="MS0617",
            message=f"the pages of `{pool.node}` hold no request at its longest",
            primary=Label(span=fixed.span, text=f"{limits.pages} pages of {page}"),
            notes=(f"a request of {limits.tokens} rows takes {pool.full} pages",),
            helps=(
                f"make `max_num_pages` at least {pool.full}, or lower `max_seq_len`, or leave "
                "`max_num_pages` out: pages then take the memory that is left",
            ),
        )
        seq_len = numbers.max_seq_len
        if seq_len is not None:
            diagnostic = diagnostic.label(seq_len.span, f"room for {seq_len.value} rows each")
        context.sink.report(diagnostic)


def _report_fewer(capacity: Capacity, placement: Placement, context: PassContext) -> None:
    """Say (MS0624) that fewer requests run at once than a deployment asks for."""
    asked = context.numbers.max_requests if context.numbers is not None else None
    if asked is None or not 1 <= capacity.expected < asked.value or context.sink.has_errors:
        return
    diagnostic = Diagnostic(
        code="MS0624",
        message=f"{capacity.expected} requests run at once on {placement.name}, not {asked.value}",
        primary=Label(span=asked.span, text=f"rank {capacity.rank} has room for fewer"),
        notes=(f"{capacity.full} at their longest, {capacity.expected} as they are expected",),
        helps=("lower `max_seq_len`, use more or larger devices, or ask for fewer",),
    )
    context.sink.report(diagnostic)


def _report(
    program: Program,
    device: Device,
    placement: Placement,
    memory: tuple[MemoryRow, ...],
    limits: Limits,
    context: PassContext,
) -> None:
    rows = sorted(
        (row for row in memory if row.rank == device.rank),
        key=lambda row: (-row.bytes, row.what, row.of),
    )
    taken = sum(row.bytes for row in rows)
    spans = {node.name: node.span for node in program.nodes}
    span = next((spans[row.of] for row in rows if row.of in spans), program.nodes[0].span)
    over = taken - device.memory_bytes
    table = [
        f"{row.what.replace('_', ' ')} of {row.of}: {row.bytes / 10**9:.3f} GB"
        + (f" ({row.by})" if row.by else "")
        for row in rows
    ]
    pages = "one request" if limits.pages is None else f"{limits.pages} pages"
    diagnostic = Diagnostic(
        code="MS0617",
        message=f"rank {device.rank} of {placement.name} takes {taken / 10**9:.3f} GB of "
        f"{device.memory_bytes / 10**9:.3f} GB",
        primary=Label(span=span, text=f"{over / 10**9:.3f} GB too much; this is the largest part"),
        notes=tuple(table),
        helps=(_remedy(rows, over, limits, pages),),
    )
    numbers = context.numbers
    if numbers is not None and numbers.max_seq_len is not None:
        number = numbers.max_seq_len
        diagnostic = diagnostic.label(number.span, f"room for {number.value} rows each")
    context.sink.report(diagnostic)


def _remedy(rows: list[MemoryRow], over: int, limits: Limits, pages: str) -> str:
    """What to change: rows where pages are large enough to give back what is too much."""
    paged = sum(row.bytes for row in rows if row.what == "kv_pages")
    more = "use more ranks, cut a node over several (`tp_size`), or take larger devices"
    if paged <= over:
        return more
    if limits.pages is not None:
        return f"there are {pages} of each node: lower `max_num_pages`, or {more}"
    fitting = int(limits.tokens * (paged - over) / paged) // limits.page_tokens
    rows_that_fit = fitting * limits.page_tokens
    return (
        f"pages are for {pages} of {limits.tokens} rows: a `max_seq_len` of "
        f"{rows_that_fit} fits; or {more}"
    )

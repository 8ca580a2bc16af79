"""The rows of a device's memory besides weights and pages, for each request or for the device.

`a_request` rows are bytes for one request; `base` rows do not depend on how many there are.
"""

from collections.abc import Iterator
from math import prod
from typing import Literal

from mstarc.analysis.control import control_path
from mstarc.analysis.lengths import count_of
from mstarc.analysis.memory import PROCESS_BYTES, RESERVE, devices_by_rank, instances
from mstarc.analysis.op_costs import QUERIES_A_HEAD, bytes_given, find_op
from mstarc.analysis.sizes import bytes_of_type, kv_row_bytes
from mstarc.deployment import DeviceKind
from mstarc.ir.decisions import MemoryKind, Placement
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Call, Each, Node, Op, Program, Pull
from mstarc.ir.types import DTYPE_BYTES, DimConst, DType, OptionalType, TensorType, Type
from mstarc.ir.walking import all_statements
from mstarc.records import dataclass

# Rows of packed requests in one step: a prompt's, or those that a token budget lets together.
STEP_ROWS = 8192
# A free size of a call that keeps no rows, such as an image's side; less where a value of several
# would be larger than these bytes.
FREE_SIZE = 1024
FREE_BYTES = 2**28
# What a layer has at once of its rows: the residual, queries, keys, values, both halves of the
# gated product, and what comes of them.
ROWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Bytes of one thing on a device, all in all or for each request."""

    device: int
    what: MemoryKind
    of: str
    bytes: int
    per: Literal["base", "request"]


def device_rows(program: Program, placement: Placement, kind: DeviceKind) -> Iterator[Row]:
    """All rows of a placement but weights and pages, in no particular order of devices."""
    devices = devices_by_rank(placement)
    calls = [statement for statement in all_statements(program) if isinstance(statement, Call)]
    yield from _cross_rows(program, placement, kind)
    readers = _readers(program)
    for stream in program.streams:
        size = (bytes_of_type(stream.item) or 0) * (stream.capacity or 0)
        for device in devices.get(readers.get(stream.name, 0), ()):
            yield Row(device=device, what="rings", of=stream.name, bytes=size, per="request")
    registers: dict[int, int] = {}
    for call in calls:
        size = sum(bytes_of_type(v.type) or 0 for v in call.results if v is not None)
        registers[call.home] = registers.get(call.home, 0) + size
    for rank, size in registers.items():
        for device in devices.get(rank, ()):
            yield Row(device=device, what="registers", of="values", bytes=size, per="request")
    if not kind.is_cpu:
        yield from _graph_pools(program, devices, calls)
    yield from _staging(program, placement, devices)
    yield from _activations(program, placement, kind, calls)
    if not kind.is_cpu:
        yield from _reserve(placement, devices)


def _cross_rows(program: Program, placement: Placement, kind: DeviceKind) -> Iterator[Row]:
    """Contexts of a fixed length have tensors of their own, for every slot."""
    nodes = {node.name: node for node in program.nodes}
    for assignment, _, device in instances(placement):
        node = nodes[assignment.node]
        rows = sum(c.cross * count_of(program, c) for c in node.contexts if c.cross is not None)
        size = rows * (kv_row_bytes(node, kind.dtype, assignment.tp) or 0)
        yield Row(device=device, what="cross_rows", of=node.name, bytes=size, per="request")


def _readers(program: Program) -> dict[str, int]:
    """The rank where each stream is read, which holds its ring."""
    found: dict[str, int] = {}
    for machine in program.machines:
        for point in control_path(program, machine):
            home = point.home.home if point.home is not None else 0
            match point.statement:
                case Each(streams=streams):
                    names = streams
                case Pull(stream=stream):
                    names = (stream,)
                case _:
                    names = ()
            for name in names:
                found.setdefault(name, home)
    return found


def _graph_pools(
    program: Program, devices: dict[int, tuple[int, ...]], calls: list[Call]
) -> Iterator[Row]:
    by_site = {call.site: call for call in calls}
    for region in program.regions:
        values = [value for site in region.sites for value in by_site[site].results]
        size = sum(bytes_of_type(value.type) or 0 for value in values if value is not None)
        for rank in by_site[region.sites[0]].ranks:
            for device in devices.get(rank, ()):
                yield Row(
                    device=device, what="graph_pool", of=region.name, bytes=size, per="request"
                )


def _staging(
    program: Program, placement: Placement, devices: dict[int, tuple[int, ...]]
) -> Iterator[Row]:
    values: dict[int, int] = {}
    contexts: dict[int, int] = {}
    for hop in program.hops:
        for rank in (hop.source_rank, hop.target_rank):
            # Twice: one is filled while the other is sent.
            values[rank] = values.get(rank, 0) + 2 * (hop.bytes_each or 0)
            rows = hop.row_bytes * placement.max_tokens
            contexts[rank] = max(contexts.get(rank, 0), rows)
    for rank, size in values.items():
        for device in devices.get(rank, ()):
            yield Row(device=device, what="staging", of="hops", bytes=size, per="request")
    for rank, size in contexts.items():
        for device in devices.get(rank, ()):
            yield Row(device=device, what="staging", of="contexts", bytes=size, per="base")


def _activations(
    program: Program, placement: Placement, kind: DeviceKind, calls: list[Call]
) -> Iterator[Row]:
    """The largest step of each node; nodes of a process run one after the other."""
    nodes = {node.name: node for node in program.nodes}
    rows = min(placement.max_tokens, STEP_ROWS)
    peaks: dict[tuple[str, int], tuple[int, int]] = {}
    for call in calls:
        node = nodes[call.node]
        if node.engine == "host":
            continue
        base, each = step_bytes(node, find_op(node, call.op), kind.dtype, rows)
        for rank in call.ranks:
            before = peaks.get((node.name, rank), (0, 0))
            peaks[node.name, rank] = max(base, before[0]), max(each, before[1])
    devices = devices_by_rank(placement)
    largest: dict[tuple[int, int], tuple[tuple[int, int], str]] = {}
    for (name, rank), peak in peaks.items():
        for device in devices.get(rank, ()):
            before_peak = largest.get((rank, device), ((0, 0), name))
            largest[rank, device] = max(before_peak, (peak, name))
    for (_, device), ((base, each), name) in largest.items():
        yield Row(device=device, what="activations", of=name, bytes=base, per="base")
        yield Row(device=device, what="activations", of=name, bytes=each, per="request")


def step_bytes(node: Node, op: Op, dtype: DType, rows: int) -> tuple[int, int]:
    """Bytes of what a call has at once: whatever runs, and for each request in the batch."""
    values = [*(p.type for p in op.parameters), *(r.type for r in op.results)]
    if node.engine == "kv_cache":
        width = max([_kv_width(node), *map(_width, values)])
        is_free = any(_is_free(type_) for type_ in values)
        size = ROWS_AT_ONCE * width * DTYPE_BYTES[dtype]
        return (size * rows, 0) if is_free else (0, size)
    free = FREE_SIZE
    while free > 1 and any(bytes_given(type_, free) > FREE_BYTES for type_ in values):
        free //= 2
    size = max((bytes_given(type_, free) for type_ in values), default=0) * ROWS_AT_ONCE
    return (size, 0) if any(_is_free(type_) for type_ in values) else (0, size)


def _kv_width(node: Node) -> int:
    """Numbers in a row of the residual, as far as the heads of the cache say."""
    settings = dict(node.kv)
    sizes = [settings.get(name) for name in ("heads", "head_dim")]
    known = [size.value for size in sizes if isinstance(size, Const)]
    return prod(int(value) for value in known if isinstance(value, int)) * QUERIES_A_HEAD


def _width(type_: Type) -> int:
    match type_:
        case OptionalType(item):
            return _width(item)
        case TensorType(dtype, dims) if dims and dtype in ("f32", "bf16", "f16"):
            last = dims[-1]
            return last.value if isinstance(last, DimConst) else 0
        case _:
            return 0


def _is_free(type_: Type) -> bool:
    match type_:
        case OptionalType(item):
            return _is_free(item)
        case TensorType(_, dims):
            return not all(isinstance(dim, DimConst) for dim in dims)
        case _:
            return False


def _reserve(placement: Placement, devices: dict[int, tuple[int, ...]]) -> Iterator[Row]:
    processes = [device for found in devices.values() for device in found]
    for device in placement.devices:
        more = max(0, processes.count(device.rank) - 1) * PROCESS_BYTES
        size = int(device.memory_bytes * RESERVE) + more
        yield Row(device=device.rank, what="reserve", of="libraries", bytes=size, per="base")

"""Seconds, FLOPs and bytes of one batched call of an op on a kind of device.

A call of `batch` requests, each with `rows` new rows and `context_rows` rows to attend to,

- reads its node's weights once, a `tp`-th of them on each device, and what it is given, gives and
  keeps of KV rows for each request;
- does 2 FLOPs for each parameter that a row goes through, and 4 for each number of a query head and
  row that is attended to, or what the op declares: `cost { flops = …, bytes = … }` is of one
  request;
- reads and goes through all weights, but where the op declares a part of them: `weights` is what a
  call reads at most, and `weights_a_row` what one row goes through, which is a tenth of a mixture
  of experts (`shards expert`); the more rows, the more of the former is read;
- takes the longer of both at what the device reaches, a launch, and for `tp` > 1 two all-reduces a
  layer.

A profile of measured calls (`mstarc bench --calibrate`) goes before all this where it has the op;
other sizes than measured ones are between, or in proportion to the model above. A host op takes
`HOST_CALL_S`. Weights of unknown size count as `UNKNOWN_WEIGHT_BYTES`.
"""

from collections.abc import Mapping
from math import prod
from typing import Protocol

from mstarc.analysis.sizes import bytes_of_type, kv_row_bytes, weight_bytes
from mstarc.deployment import DeviceKind
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Engine, Node, Op
from mstarc.ir.types import (
    DTYPE_BYTES,
    DimBinary,
    DimConst,
    DimVar,
    FlagType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from mstarc.records import dataclass

HOST_CALL_S = 1e-3
UNKNOWN_WEIGHT_BYTES: Mapping[Engine, int] = {
    "kv_cache": 2 * 10**9,
    "stateless": 2 * 10**8,
    "host": 0,
}
# Of a mixture of experts, the part that one row goes through: 3 of 30 billion parameters, say.
ACTIVE_PART = 0.1
# Query heads that share one head of keys and values, where only the latter are known.
QUERIES_A_HEAD = 4


class Profile(Protocol):
    """Measured seconds of a kind of device."""

    def op_seconds(
        self, kind: DeviceKind, node: str, op: str, *, batch: int, rows: int
    ) -> "tuple[float, tuple[int, int]] | None":
        """Seconds of a measured call near this one, and its (batch, rows); none without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one call does on each device of its group; `shared_bytes` go between them."""

    flops: float
    bytes: float
    shared_bytes: float = 0.0
    reductions: int = 0


def work(
    node: Node,
    op: Op,
    kind: DeviceKind,
    *,
    batch: int = 1,
    rows: int = 1,
    context_rows: int = 0,
    tp: int = 1,
    measured: Mapping[str, int] | None = None,
) -> Work:
    """FLOPs and bytes of one call; `rows` counts where the op's sizes are free."""
    size = node_weight_bytes(node, measured or {})
    own = rows_of(op, rows)
    declared = dict(op.cost)
    row_bytes = kv_row_bytes(node, kind.dtype) or 0
    attended = context_rows if op.mask is not None else 0
    read, part = _parts(node, op)
    parameters = read * part * size / DTYPE_BYTES[kind.dtype]
    numbers = row_bytes / DTYPE_BYTES[kind.dtype] / 2
    flops = declared.get("flops")
    if flops is None:
        flops = own * (2 * parameters + 4 * numbers * QUERIES_A_HEAD * (attended + own / 2))
    moved = declared.get("bytes")
    if moved is None:
        kept = (attended + (own if op.writes else 0)) * row_bytes
        values = [*(p.type for p in op.parameters), *(r.type for r in op.results)]
        moved = kept + sum(bytes_given(type_, rows) for type_ in values)
    reductions = 2 * layers_of(node) if tp > 1 else 0
    hidden = numbers / max(layers_of(node), 1) * QUERIES_A_HEAD * DTYPE_BYTES[kind.dtype]
    return Work(
        flops=batch * flops / tp,
        # Rows go through different experts: the more there are, the more weights are read.
        bytes=(read * size * (1 - (1 - part) ** (batch * own)) + batch * moved) / tp,
        shared_bytes=reductions * 2 * (tp - 1) / tp * batch * own * hidden,
        reductions=reductions,
    )


def _parts(node: Node, op: Op) -> tuple[float, float]:
    """What a call reads of the weights at most, and of that what one row goes through."""
    declared = dict(op.cost)
    read = declared.get("weights", 1.0)
    if "weights_a_row" in declared:
        return read, declared["weights_a_row"] / read
    return read, ACTIVE_PART if "expert" in node.shards else 1.0


def seconds(
    node: Node,
    op: Op,
    kind: DeviceKind,
    *,
    batch: int = 1,
    rows: int = 1,
    context_rows: int = 0,
    tp: int = 1,
    measured: Mapping[str, int] | None = None,
    profile: Profile | None = None,
) -> float:
    """Seconds of one call for `batch` requests."""
    if profile is not None:
        found = profile.op_seconds(kind, node.name, op.name, batch=batch, rows=rows)
        if found is not None:
            taken, (near_batch, near_rows) = found
            # Measured is the call alone, not what a step does around it.
            if (near_batch, near_rows) == (batch, rows) and tp == 1:
                return taken + kind.launch_s
            there = _modelled(node, op, kind, near_batch, near_rows, 0, 1, measured)
            here = _modelled(node, op, kind, batch, rows, context_rows, tp, measured)
            return taken * here / there + kind.launch_s
    if node.engine == "host":
        return HOST_CALL_S * batch
    return _modelled(node, op, kind, batch, rows, context_rows, tp, measured)


def _modelled(
    node: Node,
    op: Op,
    kind: DeviceKind,
    batch: int,
    rows: int,
    context_rows: int,
    tp: int,
    measured: Mapping[str, int] | None,
) -> float:
    if node.engine == "host":
        return HOST_CALL_S * batch
    done = work(
        node,
        op,
        kind,
        batch=batch,
        rows=rows,
        context_rows=context_rows,
        tp=tp,
        measured=measured,
    )
    computed = max(done.bytes / kind.read_bytes_per_s, done.flops / kind.flops_per_s())
    reduced = done.reductions * REDUCTION_S[kind.is_cpu]
    return kind.launch_s + computed + reduced + done.shared_bytes / kind.link_bytes_per_s


# One small all-reduce: over NVLink, where two H200s took 2.1 to 3.7 µs for 1 to 32 rows behind a
# product (`benchmarks/joins.py`), and over a CPU's sockets.
REDUCTION_S: Mapping[bool, float] = {False: 3e-6, True: 150e-6}


def node_weight_bytes(node: Node, measured: Mapping[str, int]) -> int:
    """Bytes of a node's weights, a guess by its engine where nothing says them."""
    size = weight_bytes(node, measured)
    return UNKNOWN_WEIGHT_BYTES[node.engine] if size is None else size


def layers_of(node: Node) -> int:
    """Layers of a node with a KV cache; 0 where the spec does not say."""
    match dict(node.kv).get("layers"):
        case Const(int(value)):
            return value
        case _:
            return 0


def rows_of(op: Op, free: int) -> int:
    """Rows of one call for a request, a free size counting as `free`.

    An op with a KV cache has a row for each entry of a free dim, else one for tokens and one for
    each vector of a tensor of floats. A stateless op has those of its largest value; an image or a
    film, or what is made of one, has a row for `NUMBERS_A_ROW` numbers.
    """
    attends = op.mask is not None
    given = [p.type for p in op.parameters]
    if attends:
        flat = [rows for type_ in given if (rows := _rows(type_, free, attends, 2))]
        return max(1, *(flat or [_rows(type_, free, attends, 9) for type_ in given]), 1)
    return max([1, *(_rows(t, free, attends, 9) for t in (*given, *_wide(op)))])


# A film of 16 x 16 pixels of 3 colours in its patches, or a vector of a stack of layers.
NUMBERS_A_ROW = 1024


def _wide(op: Op) -> list[Type]:
    """Results that are more than one row of numbers, such as samples of sound are."""
    types = [r.type.item if isinstance(r.type, OptionalType) else r.type for r in op.results]
    return [type_ for type_ in types if isinstance(type_, TensorType) and len(type_.dims) > 1]


def _rows(type_: Type, free: int, attends: bool, most_dims: int) -> int:
    if isinstance(type_, OptionalType):
        type_ = type_.item
    if not isinstance(type_, TensorType) or not type_.dims or len(type_.dims) > most_dims:
        return 0
    dims = type_.dims
    sizes: list[int] = [_dim(dim, each_free(type_, free)) for dim in dims]
    if len(dims) > 2:
        return max(1, prod(sizes) // NUMBERS_A_ROW)
    unknown = [size for dim, size in zip(dims, sizes, strict=True) if not _is_const(dim)]
    if unknown:
        return max(1, prod(unknown))
    is_row = attends and (len(dims) < 2 or type_.dtype.startswith("i"))
    return 1 if is_row else sizes[0]


def _is_const(dim: object) -> bool:
    return isinstance(dim, DimConst)


def each_free(type_: TensorType, free: int) -> int:
    """What each free size counts as: of more than two, less, so that together they are no more."""
    found: set[object] = set()
    for dim in type_.dims:
        found |= _sizes_in(dim)
    return free if len(found) < 3 else max(2, round(float(free) ** (2 / len(found))))


def _sizes_in(dim: object) -> set[object]:
    match dim:
        case DimConst():
            return set()
        case DimBinary(_, left, right):
            return _sizes_in(left) | _sizes_in(right)
        case DimVar(name):
            return {name}
        case _:
            return {id(dim)}


def bytes_given(type_: Type, free: int) -> int:
    """Bytes of one value, each free size counting as `free`; media, flags and texts as none."""
    match type_:
        case TensorType(dtype, dims):
            each = each_free(type_, free)
            return DTYPE_BYTES[dtype] * prod(_dim(dim, each) for dim in dims)
        case OptionalType(item):
            return bytes_given(item, free)
        case TupleType(fields):
            return sum(bytes_given(item, free) for _, item in fields)
        case FlagType():
            return 0
        case _:
            return bytes_of_type(type_) or 0


def _dim(dim: object, free: int) -> int:
    match dim:
        case DimConst(value):
            return value
        case DimVar():
            return free
        case DimBinary("+", left, right):
            return _dim(left, free) + _dim(right, free)
        case DimBinary("-", left, right):
            return max(_dim(left, free) - _dim(right, free), 1)
        case DimBinary("*", left, right):
            return _dim(left, free) * _dim(right, free)
        case DimBinary("//", left, right):
            return max(_dim(left, free) // max(_dim(right, free), 1), 1)
        case DimBinary("%", left, right):
            return _dim(left, free) % max(_dim(right, free), 1)
        case _:
            return free


def find_op(node: Node, name: str) -> Op:
    """The op of a node by its name."""
    return next(op for op in node.ops if op.name == name)


def tensor_sizes(node: Node, most: int) -> tuple[int, ...]:
    """The tensor parallel sizes that a node can be cut into, 1 first, up to `most` devices.

    Powers of two that share its heads evenly, or copy them evenly where there are fewer.
    """
    if not any(way in ("tensor", "expert") for way in node.shards):
        return (1,)
    heads = dict(node.kv).get("heads")
    count = heads.value if isinstance(heads, Const) and isinstance(heads.value, int) else None
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= most]
    return tuple(s for s in sizes if count is None or count % s == 0 or s % count == 0)

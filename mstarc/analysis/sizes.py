"""Bytes: of a value from its type, of a node's weights, of a KV row."""

from collections.abc import Mapping
from math import ceil, prod

from mstarc.ir.exprs import Const
from mstarc.ir.graph import Node
from mstarc.ir.types import (
    DTYPE_BYTES,
    DimConst,
    DType,
    FlagType,
    OptionalType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)


def bytes_of_type(type_: Type) -> int | None:
    """Bytes of one value; None where a dim is free, or for media, lists and strings."""
    match type_:
        case TensorType(dtype, dims):
            sizes = [dim.value for dim in dims if isinstance(dim, DimConst)]
            return DTYPE_BYTES[dtype] * prod(sizes) if len(sizes) == len(dims) else None
        case ScalarType("int" | "float"):
            return 8
        case ScalarType("bool") | FlagType():
            return 1
        case OptionalType(item):
            inner = bytes_of_type(item)
            return None if inner is None else inner + 1
        case TupleType(fields):
            total = 0
            for _, item in fields:
                size = bytes_of_type(item)
                if size is None:
                    return None
                total += size
            return total
        case _:
            return None


def weight_bytes(node: Node, measured: Mapping[str, int]) -> int | None:
    """Bytes of a node's weights: measured, else declared by the spec, else unknown."""
    if node.engine == "host":
        return 0
    if node.name in measured:
        return measured[node.name]
    return node.weights.size_bytes if node.weights is not None else None


def kv_row_bytes(node: Node, dtype: DType, tp: int = 1) -> int | None:
    """Bytes of one row of a context over all layers; None where the spec does not say.

    A row holds a key and a value of `heads * head_dim` a layer; cut over `tp` devices each has its
    share of the heads, at least one.
    """
    settings = dict(node.kv)
    sizes: list[int] = []
    for name in ("layers", "heads", "head_dim"):
        match settings.get(name):
            case Const(int(value)):
                sizes.append(ceil(value / tp) if name == "heads" else value)
            case _:
                return None
    return 2 * prod(sizes) * DTYPE_BYTES[dtype]

"""How large each node's weights are on a device, and what says so.

The first that knows wins:

    given           a file of sizes says it (`size`)
    implementation  a profile: the node's module, built without memory or measured
    checkpoint      the headers of a local checkpoint's safetensors files
    config          parameters counted from a checkpoint's config.json
    declared        the spec says it (`weights "…" size 6.6 GB`)
    guessed         a number for the engine

Numbers of parameters become bytes of the dtype that the device keeps weights in. Where a file of
sizes gives a node other weights, what the spec declares is of others and no longer counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

from mstarc.analysis.config_parameters import parameters_of_config
from mstarc.analysis.op_costs import UNKNOWN_WEIGHT_BYTES
from mstarc.ir.graph import Node, Program
from mstarc.ir.types import DTYPE_BYTES, DType
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a checkpoint, by its header; `dtype` is as safetensors writes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is known about weights besides the spec, by node.

    `tensors` are those of a local checkpoint; under the key "" those of the model's. `configs` are
    a checkpoint's config.json, under "" the model's. `replaced` are nodes that a file of sizes
    gives other weights.
    """

    given: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes on a device that keeps the node whole, and what says so."""

    bytes: int
    by: str


def weigh(program: Program, sources: Sources, dtype: DType) -> dict[str, Weight]:
    """The weights of every node that is not host code."""
    return {
        node.name: _weigh(program, node, sources, dtype)
        for node in program.nodes
        if node.engine != "host"
    }


def _weigh(program: Program, node: Node, sources: Sources, dtype: DType) -> Weight:
    if node.name in sources.given:
        return Weight(sources.given[node.name], "given")
    if node.name in sources.measured:
        return Weight(sources.measured[node.name], "implementation")
    tensors = _tensors(program, node, sources)
    if tensors:
        return Weight(sum(_bytes(tensor, dtype) for tensor in tensors), "checkpoint")
    declared = node.weights.size_bytes if node.weights is not None else None
    if node.name in sources.replaced:
        declared = None
    found = _config(program, node, sources)
    if found is not None and (declared is None or node.engine == "kv_cache"):
        under = node.weights.under if node.weights is not None else ""
        count = parameters_of_config(found, under)
        if count is not None:
            return Weight(count * DTYPE_BYTES[dtype], "config")
    if declared is not None:
        return Weight(declared, "declared")
    return Weight(UNKNOWN_WEIGHT_BYTES[node.engine], "guessed")


def _config(program: Program, node: Node, sources: Sources) -> Mapping[str, Any] | None:
    if node.name in sources.configs:
        return sources.configs[node.name]
    return sources.configs.get("") if _is_of_model(program, node) else None


def _is_of_model(program: Program, node: Node) -> bool:
    """Whether a node's weights are in the model's own checkpoint."""
    return node.weights is None or node.weights.source == program.checkpoint


def _tensors(program: Program, node: Node, sources: Sources) -> list[Tensor]:
    """The tensors below a node's prefix, without those below a longer one of another node."""
    if node.name in sources.tensors:
        tensors = sources.tensors[node.name]
        others: list[Node] = []
    elif _is_of_model(program, node) and "" in sources.tensors:
        tensors = sources.tensors[""]
        others = [
            other
            for other in program.nodes
            if other.name not in sources.tensors and _is_of_model(program, other)
        ]
    else:
        return []
    under = _under(node)
    inner = [_under(other) for other in others if _under(other) != under and other.engine != "host"]
    inner = [prefix for prefix in inner if prefix.startswith(under)]
    return [
        tensor
        for tensor in tensors
        if tensor.name.startswith(under)
        and not any(tensor.name.startswith(prefix) for prefix in inner)
    ]


def _under(node: Node) -> str:
    return node.weights.under if node.weights is not None else ""


_STORED: Mapping[str, int] = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


def _bytes(tensor: Tensor, dtype: DType) -> int:
    each = DTYPE_BYTES[dtype] if tensor.dtype in _FLOATS else _STORED.get(tensor.dtype, 4)
    return prod(tensor.shape) * each

"""What to measure of a program, as plain data for the runtime, and a profile of what comes back.

A job names each device node with its module, its KV cache and its ops; an op has the shapes of what
it takes, a free dim as the text of its expression, and how its rows come: `one` a request,
`packed`, or `shaped` (without a cache). The runtime calls each op alone with made-up values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mstarc.deployment.profile import MeasuredProfile, OpPoint
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Context, Node, Op, Program
from mstarc.ir.text import format_type
from mstarc.ir.types import (
    DimConst,
    FlagType,
    OptionalType,
    ScalarType,
    TensorType,
    Type,
)


def calibration_job(
    program: Program,
    configs: Mapping[str, Mapping[str, Any]],
    *,
    what: str,
    device: str,
    dtype: str,
    batches: Sequence[int],
    rows: Sequence[int],
    context: int,
    threads: int,
) -> dict[str, Any]:
    """The job; `configs` are the config of each node's module. `what` is `ops` or `weigh`."""
    return {
        "what": what,
        "device": device,
        "dtype": dtype,
        "batches": list(batches),
        "rows": list(rows),
        "context": context,
        "threads": threads,
        "nodes": [
            _node(node, dict(configs.get(node.name, {})))
            for node in program.nodes
            if node.engine != "host"
        ],
    }


def profile_of(program: Program, device: str, result: Mapping[str, Any]) -> MeasuredProfile:
    """The profile of a result, in the order of the program."""
    order = {(node.name, op.name): None for node in program.nodes for op in node.ops}
    points: dict[tuple[str, str], list[OpPoint]] = {}
    for entry in result["ops"]:
        key = str(entry["node"]), str(entry["op"])
        point = OpPoint(
            batch=int(entry["batch"]),
            rows=int(entry["rows"]),
            context=int(entry["context"]),
            seconds=float(entry["seconds"]),
        )
        points.setdefault(key, []).append(point)
    return MeasuredProfile(
        model=program.model,
        device=device,
        facts={name: float(value) for name, value in result["facts"].items()},
        weights={name: int(size) for name, size in result["weights"].items()},
        ops={
            key: tuple(sorted(points[key], key=lambda p: (p.rows, p.batch)))
            for key in order
            if key in points
        },
    )


def _node(node: Node, config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": node.name,
        "engine": node.engine,
        "impl": node.impl,
        "config": config,
        "ops": [_op(node, op) for op in node.ops],
    }
    if node.engine == "kv_cache":
        contexts = node.contexts or (Context(name="main"),)
        found["kv"] = {
            "layers": _number(node, "layers"),
            "heads": _number(node, "heads"),
            "head_dim": _number(node, "head_dim"),
            "contexts": [c.name for c in contexts if c.cross is None],
            "cross": {c.name: c.cross for c in contexts if c.cross is not None},
            "samplers": [
                {"name": name, "settings": {key: _setting(value) for key, value in settings}}
                for name, settings in node.samplers
            ],
        }
    return found


def _number(node: Node, name: str) -> int:
    value = dict(node.kv)[name]
    assert isinstance(value, Const) and isinstance(value.value, int), f"{node.name}: {name}"
    return value.value


def _setting(value: object) -> float | int | None:
    """A sampler's setting as a number; None where the request gives it."""
    if isinstance(value, Const) and isinstance(value.value, int | float):
        return value.value
    return None


def _op(node: Node, op: Op) -> dict[str, Any]:
    contexts = node.contexts or (Context(name="main"),)
    plain = [context.name for context in contexts if context.cross is None]
    writes = [name for name in op.writes if name in plain]
    reads = [name for name in op.reads if name in plain]
    mask: str | None = None if op.mask is None else op.mask.kind
    if op.mask is not None and op.mask.size is not None:
        size = op.mask.size
        mask = f"{op.mask.kind}({size.value})" if isinstance(size, DimConst) else None
    return {
        "name": op.name,
        "parameters": [_value(parameter.type) for parameter in op.parameters],
        "shown": [f"{p.name}: {format_type(p.type)}" for p in op.parameters],
        "rows": "shaped" if node.engine == "stateless" else _rows(op),
        "mask": mask,
        "writes": writes[:1],
        "reads": reads[:1],
        "sampler": op.sampler,
        "advance": op.advance.value if isinstance(op.advance, Const) else None,
    }


def _rows(op: Op) -> str:
    """`one` where every value is one row of a request, whatever the call."""
    if isinstance(op.advance, Const) and op.advance.value != 1:
        return "packed"
    for parameter in op.parameters:
        type_ = parameter.type.item if isinstance(parameter.type, OptionalType) else parameter.type
        if isinstance(type_, TensorType) and type_.dims:
            is_static = all(isinstance(dim, DimConst) for dim in type_.dims)
            is_row = len(type_.dims) == 1
            if not (is_static and is_row):
                return "packed"
    return "one"


def _value(type_: Type) -> dict[str, Any]:
    match type_:
        case OptionalType(item):
            return {**_value(item), "optional": True}
        case TensorType(dtype, dims):
            sizes = [dim.value if isinstance(dim, DimConst) else None for dim in dims]
            return {"kind": "tensor", "dtype": dtype, "dims": sizes}
        case FlagType():
            return {"kind": "flag"}
        case ScalarType(kind):
            return {"kind": "scalar", "dtype": kind}
        case _:
            return {"kind": "other"}

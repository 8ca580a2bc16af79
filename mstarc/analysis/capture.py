"""Why a call cannot be in a CUDA graph, or that it can.

A graph replays fixed work on buffers of fixed shapes. So a call is fit for one when its node runs
on a device, and every tensor that it takes and gives has a size that the plan knows. A free dim of
a parameter is known where the argument fixes it: a constant list, or a value of static type.
"""

from collections.abc import Iterator, Mapping

from mstarc.ir.exprs import Const, Expr, Local
from mstarc.ir.graph import Call, Node, Op
from mstarc.ir.types import (
    Dim,
    DimBinary,
    DimConst,
    DimUnknown,
    DimVar,
    OptionalType,
    ScalarType,
    TensorType,
    Type,
)

Sizes = dict[str, int]


def why_not_captured(node: Node, op: Op, call: Call, types: Mapping[str, Type]) -> str | None:
    """The reason that a call is in no region, or None where it may be in one."""
    name = f"`{node.name}.{op.name}`"
    if node.engine == "host":
        return f"{name} runs on the host"
    if call.index is not None or any(
        context.name == call.context and context.count is not None for context in node.contexts
    ):
        return f"{name} works on an array of contexts"
    return _why_sizes_differ(op, name, bound_sizes(op, call, types))


def has_free_length(node: Node, op: Op, call: Call, types: Mapping[str, Type]) -> bool:
    """Whether nothing but sizes that differ by call keeps a call out: a prompt, an image."""
    if why_not_captured(node, op, call, types) is None:
        return False
    types_of_op = [*(p.type for p in op.parameters), *(r.type for r in op.results)]
    free = {name for type_ in types_of_op for name in _free_dims(type_)}
    sizes = dict.fromkeys(free, 1) | bound_sizes(op, call, types)
    is_on_device = node.engine != "host" and call.index is None
    return bool(free) and is_on_device and _why_sizes_differ(op, "", sizes) is None


def _why_sizes_differ(op: Op, name: str, sizes: Sizes) -> str | None:
    for what, items in (("takes", op.parameters), ("gives", op.results)):
        for item in items:
            reason = _why_not_static(item.type, sizes)
            if reason is not None:
                return f"{name} {what} `{item.name}`, {reason}"
    return None


def _free_dims(type_: Type) -> Iterator[str]:
    tensor = _tensor(type_)
    waiting = list(tensor.dims) if tensor is not None else []
    while waiting:
        match waiting.pop():
            case DimVar(name, _):
                yield name
            case DimBinary(_, left, right):
                waiting += [left, right]
            case _:
                pass


def bound_sizes(op: Op, call: Call, types: Mapping[str, Type]) -> Sizes:
    """Free dims of an op that the arguments of a call fix."""
    sizes: Sizes = {}
    for argument, parameter in zip(call.arguments, op.parameters, strict=True):
        wanted = _tensor(parameter.type)
        if wanted is None:
            continue
        for dim, size in zip(wanted.dims, _known_dims(argument, types), strict=False):
            if isinstance(dim, DimVar) and size is not None:
                sizes[dim.name] = size
    return sizes


def _tensor(type_: Type) -> TensorType | None:
    if isinstance(type_, OptionalType):
        type_ = type_.item
    return type_ if isinstance(type_, TensorType) else None


def _known_dims(argument: Expr, types: Mapping[str, Type]) -> list[int | None]:
    match argument:
        case Const(tuple() as items):
            return [len(items)]
        case Local(name) if name in types:
            given = _tensor(types[name])
            dims = given.dims if given is not None else ()
            return [dim.value if isinstance(dim, DimConst) else None for dim in dims]
        case _:
            return []


def _why_not_static(type_: Type, sizes: Sizes) -> str | None:
    if isinstance(type_, ScalarType) and type_.kind == "str":
        return "a string, which only the host knows"
    tensor = _tensor(type_)
    for dim in tensor.dims if tensor is not None else ():
        reason = _why_unknown(dim, sizes)
        if reason is not None:
            return reason
    return None


def _why_unknown(dim: Dim, sizes: Sizes) -> str | None:
    match dim:
        case DimUnknown():
            return "whose length only the run knows (`?`)"
        case DimVar(name, _) if name in sizes:
            return None
        case DimVar(name, True):
            return f"whose size `{name}` differs by request"
        case DimVar(name, _):
            return f"whose size `{name}` differs by call"
        case DimBinary(_, left, right):
            return _why_unknown(left, sizes) or _why_unknown(right, sizes)
        case _:
            return None

"""How the values of ops are laid out over the requests of a batch.

A free dim of a `kv_cache` node is packed (the rows of several requests one behind the other);
everything else has a leading dim of one row a request.
"""

from typing import Literal

from mstarc.ir.exprs import Const, Local
from mstarc.ir.graph import Call, Node, Op, Program
from mstarc.ir.types import (
    DTYPE_BYTES,
    Dim,
    DimBinary,
    DimConst,
    DimUnknown,
    DimVar,
    OptionalType,
    TensorType,
    Type,
)
from mstarc.plan.actions import CallOp

Rows = Literal["one", "fixed", "packed", "shaped"]
Layout = Literal["rows", "packed"]


def has_request_dim(type_: Type) -> bool:
    """Whether an option of the request says how large a tensor is."""
    return isinstance(type_, TensorType) and any(map(_is_of_request, type_.dims))


def _is_of_request(dim: Dim) -> bool:
    match dim:
        case DimVar(_, request):
            return request
        case DimBinary(_, left, right):
            return _is_of_request(left) or _is_of_request(right)
        case _:
            return False


def where_there(type_: Type) -> Type:
    """The type of a value that may be none, where it is there."""
    return type_.item if isinstance(type_, OptionalType) else type_


def fixed_rows(op: Op) -> int | None:
    """The rows that an op without a free dim writes, where its `advance` says so."""
    if any(has_free_dim(parameter.type) for parameter in op.parameters):
        return None
    match op.advance:
        case Const(int(rows)) if rows != 1:
            return rows
        case _:
            return None


def has_free_dim(type_: Type) -> bool:
    """Whether a tensor's size differs from request to request."""
    return isinstance(type_, TensorType) and not type_.is_static


def has_unknown_dim(type_: Type) -> bool:
    """Whether only the run knows the tensor's size."""
    return isinstance(type_, TensorType) and any(isinstance(d, DimUnknown) for d in type_.dims)


def static_bytes(type_: Type) -> int | None:
    """Bytes of one request's tensor; None where the plan cannot know."""
    if not isinstance(type_, TensorType):
        return None
    total = DTYPE_BYTES[type_.dtype]
    for dim in type_.dims:
        if not isinstance(dim, DimConst):
            return None
        total *= dim.value
    return total


class Signatures:
    """The ops of a program by node and name."""

    def __init__(self, program: Program) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in program.nodes}
        self.ops: dict[tuple[str, str], Op] = {
            (node.name, op.name): op for node in program.nodes for op in node.ops
        }

    def is_host(self, node: str) -> bool:
        """Whether the node is Python code on the host."""
        return self.nodes[node].engine == "host"

    def op(self, call: CallOp) -> Op:
        """The op of a call."""
        return self.ops[call.node, call.op]

    def is_of_array(self, call: Call) -> bool:
        """Whether a call is on an array of contexts, or on one of them."""
        contexts = self.nodes[call.node].contexts
        return any(c.name == call.context and c.count is not None for c in contexts)

    def moves_freely(self, call: Call) -> bool:
        """Whether positions move by another number than the spec's."""
        advance = self.ops[call.node, call.op].advance
        return advance is not None and not isinstance(advance, Const)

    def keeps_fixed_rows(self, call: Call) -> bool:
        """Whether a call leaves several rows behind: a step has room for one such call."""
        op = self.ops[call.node, call.op]
        is_kv = self.nodes[call.node].engine == "kv_cache"
        return is_kv and bool(op.writes) and fixed_rows(op) is not None

    def is_alone(self, call: CallOp) -> bool:
        """Whether each request needs a call of its own: how much it is differs between them."""
        if call.over is None:
            return False
        op = self.op(call)
        name = call.context or self.nodes[call.node].contexts[0].name
        count = next(c.count for c in self.nodes[call.node].contexts if c.name == name)
        types = [*(p.type for p in op.parameters), *(r.type for r in op.results)]
        return not isinstance(count, Const) or any(has_free_dim(where_there(t)) for t in types)

    def parameter_layout(self, call: CallOp, index: int) -> Layout:
        """How the op takes its parameter."""
        if call.over is not None:
            return "rows"
        free = has_free_dim(self.op(call).parameters[index].type)
        return "packed" if free and self.nodes[call.node].engine == "kv_cache" else "rows"

    def result_layout(self, call: CallOp, index: int) -> Layout:
        """How the op gives its result."""
        if call.over is not None:
            return "rows"
        results = self.op(call).results
        free = has_free_dim(results[index % len(results)].type)
        return "packed" if free and self.nodes[call.node].engine == "kv_cache" else "rows"

    def rows(self, call: CallOp) -> Rows:
        """How the requests of a batch share one call of the op."""
        op = self.op(call)
        if self.nodes[call.node].engine == "stateless":
            return "shaped"
        if call.over is not None or call.index is not None:
            return "packed"
        if self.fixed_rows(call) is not None:
            return "fixed"
        if call.advance is not None and not isinstance(call.advance, Const):
            return "packed"
        return "packed" if any(has_free_dim(p.type) for p in op.parameters) else "one"

    def fixed_rows(self, call: CallOp) -> int | None:
        """The rows of an op that says how many by its `advance` alone; None for all others."""
        return fixed_rows(self.op(call))

    def has_free_shapes(self, call: CallOp) -> bool:
        """Whether requests must have equal shapes to share a stateless call."""
        return any(has_free_dim(p.type) for p in self.op(call).parameters)

    def rows_together(self, calls: list[CallOp]) -> Rows | None:
        """How requests share a step of these calls; None where they cannot be one step."""
        kv = {self.rows(c) for c in calls if self.nodes[c.node].engine == "kv_cache"}
        if "fixed" in kv and len(kv) > 1:
            return None
        stateless = [c for c in calls if self.nodes[c.node].engine == "stateless"]
        if kv and any(self.has_free_shapes(c) for c in stateless):
            return None
        if kv & {"packed", "fixed"}:
            # One call a context: the rows of two are not laid out at once.
            held = [(c.node, c.context) for c in calls if self.nodes[c.node].engine == "kv_cache"]
            if len(set(held)) < len(held):
                return None
        layouts: dict[str, Layout] = {}
        for call in calls:
            for index, argument in enumerate(call.arguments):
                if not isinstance(argument, Local) or argument.name not in layouts:
                    continue
                if layouts[argument.name] != self.parameter_layout(call, index):
                    return None
            for index, result in enumerate(call.results):
                if result is not None:
                    layouts[result] = self.result_layout(call, index)
        for rows in ("packed", "fixed"):
            if rows in kv:
                return rows
        return "one" if kv or not calls else "shaped"

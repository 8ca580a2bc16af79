"""What a call does besides its results: the contexts that it means, the flags of its arguments."""

from collections.abc import Iterable, Mapping
from typing import Any

from mstarc.ir.graph import Call, Node, Op
from mstarc.ir.interpret.evaluate import Scope


def effect_of(node: Node, op: Op, call: Call) -> str | None:
    """The first context that a call writes, or reads where it writes none."""
    effects = (*op.writes, *op.reads)
    return context_of(node, effects[0], call) if effects else None


def context_of(node: Node, name: str, call: Call) -> str:
    """The context that an effect means: an op's first one is that of `on`, where a call says so."""
    is_first = bool(node.contexts) and name == node.contexts[0].name
    return call.context if is_first and call.context is not None else name


def flags_of(op: Op, arguments: Iterable[Any]) -> Scope:
    """A scope in which the conditions of an op's results are read."""
    values: Mapping[str, Any] = {
        parameter.name: argument
        for parameter, argument in zip(op.parameters, arguments, strict=True)
    }
    return Scope(values=dict(values))

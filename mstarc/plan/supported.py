"""Refuse declarations that plans have no code for yet, each where it stands.

Statements are refused where they are cut (`flatten`, `effects`, `loops`).
"""

from mstarc.ir.exprs import Const, LetRef, Option
from mstarc.ir.graph import Node, Program
from mstarc.plan.lanes import lanes_of
from mstarc.plan.refuse import not_built
from mstarc.plan.words import spec_expr


def check_supported(program: Program) -> None:
    """Raise `NotBuiltError` for the first declaration without code."""
    for stream in program.streams:
        if any(not lane.type.is_static for lane in lanes_of(stream)):
            raise not_built("a stream whose items have no fixed size", stream.span)
    for node in program.nodes:
        _check_node(node)


def _check_node(node: Node) -> None:
    for context in node.contexts:
        if context.count is not None:
            raise not_built(f"an array of contexts, as `{context.name}`,", node.span)
    for name, settings in node.samplers:
        for setting, value in settings:
            if not isinstance(value, Const | Option | LetRef):
                raise not_built(
                    "a sampler's setting that is an expression",
                    node.span,
                    f"`{setting} = {spec_expr(value)}` of `sample {name}`",
                    f"name it: `let {setting}_used = {spec_expr(value)}`",
                )

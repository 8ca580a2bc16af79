"""Refuse declarations that plans have no code for yet, each where it stands.

Statements are refused where they are cut (`flatten`, `effects`, `loops`).
"""

from mstarc.ir.graph import Program
from mstarc.plan.lanes import lanes_of
from mstarc.plan.refuse import not_built


def check_supported(program: Program) -> None:
    """Raise `NotBuiltError` for the first declaration without code."""
    for stream in program.streams:
        if any(not lane.type.is_static for lane in lanes_of(stream)):
            raise not_built("a stream whose items have no fixed size", stream.span)

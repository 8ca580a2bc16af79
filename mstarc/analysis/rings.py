"""How many items of a stream wait at most: what a read holds, and what a send brings at once."""

from mstarc.analysis.bounds import burst
from mstarc.analysis.rates import new_items
from mstarc.ir.graph import Each, Policy, Program, Pull, Stream
from mstarc.ir.walking import all_statements

# Sends of so many items are of passes of loops, and few enough for room to be cheap.
_FEW = 64


def ring_capacity(program: Program, stream: Stream, max_tokens: int) -> int:
    """Items that the ring of a stream holds, where its machines are on no cycle."""
    size = burst(program, stream, max_tokens)
    needs = [max(span + step, span + size - 1) for span, step in _reads(program, stream)]
    placement = program.placement
    # Two stretches of passes are under way while the reader has not read yet.
    ahead = 2 * size * placement.stretch if placement is not None and size <= _FEW else 0
    need = max(needs) + ahead
    # A burst that only the request knows is not one to round to.
    return need if size == max_tokens else -(-need // size) * size


def _reads(program: Program, stream: Stream) -> list[tuple[int, int]]:
    """Span and step of each read of a stream."""
    found: list[tuple[int, int]] = []
    for statement in all_statements(program):
        if isinstance(statement, Pull) and statement.stream == stream.name:
            found.append((1, 1))
        if isinstance(statement, Each) and stream.name in statement.streams:
            policy = statement.policy or stream.policy
            held = new_items(policy) if statement.last is not None else 0
            found.append((_span(policy) + held, new_items(policy)))
    return found or [(_span(stream.policy), new_items(stream.policy))]


def _span(policy: Policy) -> int:
    return policy.size + (policy.context if policy.kind == "left_context" else 0)

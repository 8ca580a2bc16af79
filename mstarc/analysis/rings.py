"""How many items of a stream wait at most: what a read holds, and what a step sends at once."""

from collections.abc import Iterable

from mstarc.analysis.bounds import burst
from mstarc.analysis.rates import new_items
from mstarc.ir.exprs import Const
from mstarc.ir.graph import (
    Call,
    Each,
    ForParts,
    Loop,
    Match,
    Parallel,
    Policy,
    Program,
    Pull,
    Run,
    Send,
    Statement,
    Stream,
    When,
)
from mstarc.ir.walking import all_statements, statements_of

# Sends of so many items are of passes of loops, and few enough for room to be cheap.
_FEW = 64


def ring_capacity(program: Program, stream: Stream, max_tokens: int) -> int:
    """Items that the ring of a stream holds, where its machines are on no cycle."""
    each = burst(program, stream, max_tokens)
    size = each * _Sends(program, stream.name).most
    needs = [max(span + step, span + size - 1) for span, step in _reads(program, stream)]
    placement = program.placement
    # Two stretches of passes are under way while the reader has not read yet.
    ahead = 2 * size * placement.stretch if placement is not None and size <= _FEW else 0
    need = max(needs) + ahead
    # A burst that only the request knows is not one to round to.
    return need if each == max_tokens else -(-need // size) * size


class _Sends:
    """`most`: how often one step sends to a stream, at the most.

    A step may hold what stands one behind the other, and a loop of a known number of passes whole;
    never a pass of another loop and what stands around it.
    """

    def __init__(self, program: Program, stream: str) -> None:
        self._stream = stream
        self._walks = {walk.name: walk for walk in program.walks}
        self.most = 1
        for machine in program.machines:
            for state in machine.states:
                self._apart(state.body)

    def _apart(self, body: Iterable[Statement]) -> int:
        here = self._together(body)  # which may meet more of them
        self.most = max(self.most, here)
        return 0

    def _together(self, body: Iterable[Statement]) -> int:
        return sum(map(self._of, body))

    def _of(self, statement: Statement) -> int:
        match statement:
            case Send(stream=stream):
                return 1 if stream == self._stream else 0
            case Run(walk=walk):
                return self._together(self._walks[walk].body)
            case Loop(body=body, bound=Const(int(passes))) if _is_plain(statement):
                return max(passes, 0) * self._together(body)
            case Loop(body=body) | Each(body=body) | ForParts(body=body):
                return self._apart(body)
            case When(then=then, otherwise=otherwise):
                ways = [self._together(then), self._together(otherwise)]
                # A choice between calls is one between steps.
                has_calls = any(isinstance(s, Call | Run) for s in statements_of((statement,)))
                return max(ways) if has_calls else sum(ways)
            case Parallel(branches=branches):
                return sum(map(self._together, branches))
            case Match(arms=arms):
                return max((self._together(arm.body) for arm in arms), default=0)
            case _:
                return 0


def _is_plain(loop: Loop) -> bool:
    return loop.kind == "times" and loop.condition is None and loop.until is None


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

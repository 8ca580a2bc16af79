"""Requests drawn from a mix: when they come, how large they are, what admission decides for them.

What a request is asked for is evaluated by the meaning of the IR (`ir.interpret`), with inputs that
are only there or not; how often a tested loop goes round is drawn, and never more than its bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from mstarc.analysis.lengths import DEFAULT_ROWS
from mstarc.deployment.mix import RequestKind
from mstarc.ir.exprs import Expr, Input, Option, TableItem
from mstarc.ir.graph import Program
from mstarc.ir.interpret.evaluate import Evaluator, Scope
from mstarc.ir.interpret.request import Part, Request
from mstarc.plan.plan import Admission, PerPass
from mstarc.records import dataclass


@dataclass(slots=True, kw_only=True, eq=False)
class Sample:
    """One request: when it comes, rows of free sizes, passes of loops, and its facts."""

    arrival_s: float
    rows: int
    bounds: Mapping[str, int]
    facts: "Facts"


class Facts(Evaluator):
    """What admission decides of one request. `passes` has the pass that each loop is at."""

    def __init__(self, program: Program, admission: Admission, request: Request) -> None:
        super().__init__(program, request)
        self.derived = dict(admission.derived)
        self.passes: dict[str, int] = {}

    def holds(self, test: Expr | None) -> bool:
        """Whether a condition that the host knows is true now."""
        return test is None or bool(self.evaluate(test, Scope(indices=self.passes)))

    def evaluate(self, expr: Expr, scope: Scope) -> Any:
        match expr:
            case TableItem(name, index) if name in self.derived:
                return self._entry(name, int(self.evaluate(index, scope)))
            case Option(name) if name in self.derived:
                value = self.derived[name]
                assert not isinstance(value, PerPass), name
                return super().evaluate(value, scope)
            case Option(name) if name in self.lets:
                # Admission hands on options and lets alike.
                return super().evaluate(self.lets[name], scope)
            case _:
                return super().evaluate(expr, scope)

    def bound(self, expr: Expr) -> int:
        """The most passes of a loop: a number, or as many as an input has parts."""
        value = self.evaluate(expr, Scope(indices=self.passes))
        return len(value) if isinstance(value, tuple) else int(value or 0)

    def _entry(self, name: str, number: int) -> Any:
        made = self.derived[name]
        if not isinstance(made, PerPass):
            return super().evaluate(made, Scope())
        scope = Scope()
        # The last index goes fastest.
        for index, bound in reversed(made.indices):
            size = max(1, self.bound(bound))
            number, at = divmod(number, size)
            scope.indices[index] = at
            parts = self.inputs.get(bound.name) if isinstance(bound, Input) else None
            if isinstance(parts, tuple) and at < len(parts):
                scope.parts[index] = _attributes(parts, at)
        return super().evaluate(made.value, scope)


def samples(
    program: Program,
    admission: Admission,
    kinds: Sequence[RequestKind],
    *,
    rate: float,
    seconds: float,
    burst: int | None,
    random: Random,
) -> Iterator[Sample]:
    """Requests in the order of time: `burst` of them at once, or `rate` a second for `seconds`."""
    kinds = kinds or (RequestKind(),)
    weights = [kind.share for kind in kinds]
    over = {bound.name for _, bound in admission.bounds if isinstance(bound, Input)}
    at, number = 0.0, 0
    while True:
        if burst is None:
            at += random.expovariate(rate)
        if at >= seconds or (burst is not None and number >= burst):
            return
        number += 1
        kind = random.choices(kinds, weights)[0]
        yield _sample(program, admission, kind, over, at, random)


def _sample(
    program: Program,
    admission: Admission,
    kind: RequestKind,
    over: set[str],
    at: float,
    random: Random,
) -> Sample:
    inputs: dict[str, Any] = {}
    for field in program.inputs:
        if field.name in over:
            kinds = dict(kind.parts) or {_first_kind(program, field.name): 1}
            inputs[field.name] = tuple(
                Part(kind=name, value=None) for name, count in kinds.items() for _ in range(count)
            )
        elif not field.optional:
            inputs[field.name] = True
    wants = frozenset(kind.wants or [output.name for output in program.outputs])
    request = Request(inputs=inputs, options=dict(kind.options), wants=wants)
    facts = Facts(program, admission, request)
    bounds = {}
    for loop, expr in admission.bounds:
        most = facts.bound(expr)
        drawn = next((r for name, r in kind.passes.items() if _is_of(loop, name)), None)
        bounds[loop] = most if drawn is None else min(most, random.randint(drawn.low, drawn.high))
    rows = kind.rows
    return Sample(
        arrival_s=at,
        rows=DEFAULT_ROWS if rows is None else max(1, random.randint(rows.low, rows.high)),
        bounds=bounds,
        facts=facts,
    )


def _is_of(loop: str, name: str) -> bool:
    """Whether a loop of the plan (`machine.walk`) is the one that a mix names."""
    return loop == name or loop.endswith(f".{name}")


def _first_kind(program: Program, name: str) -> str:
    """The media kind that a part has where the mix says nothing: the first that is matched."""
    from mstarc.ir.graph import ForParts, Match
    from mstarc.ir.walking import all_statements

    for statement in all_statements(program):
        if isinstance(statement, ForParts) and statement.over == name:
            for inner in statement.body:
                if isinstance(inner, Match) and inner.arms:
                    return inner.arms[0].kind
    return "text"


def _attributes(parts: tuple[Part, ...], index: int) -> dict[str, Any]:
    part = parts[index]
    before = parts[index - 1] if index else None
    after = parts[index + 1] if index + 1 < len(parts) else None
    return {
        "kind": part.kind,
        "value": part.value,
        "role": part.role,
        "first": before is None,
        "last": after is None,
        "opens": before is None or before.role != part.role,
        "closes": after is None or after.role != part.role,
    }

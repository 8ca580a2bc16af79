"""How often each site runs in one request, and how many items a stream carries, as expected.

A bound that is an option counts at its default; `while` and
`until` count as if they never stop; both branches of a choice count. The numbers rank placements
and size nothing that must hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from mstarc.ir.exprs import Binary, Const, Expr, LetRef, Option, Unary
from mstarc.ir.graph import (
    Call,
    Each,
    ForParts,
    Loop,
    Match,
    Parallel,
    Policy,
    Program,
    Run,
    Send,
    Statement,
    Walk,
    When,
)
from mstarc.records import dataclass

# What counts for a bound that is no literal and no option.
UNKNOWN_BOUND = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How often a request is in each (machine, state), and has parts of each kind.

    Without one of them every state is taken once, and each kind of part is there once.
    """

    states: Mapping[tuple[str, str], float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    def of_state(self, machine: str, state: str) -> float:
        return self.states.get((machine, state), 0.0) if self.states else 1.0

    def of_part(self, kind: str) -> float:
        return self.parts.get(kind, 0.0) if self.parts else 1.0


ALL = Taken()


def expected_runs(
    program: Program, options: Mapping[str, float] | None = None, taken: Taken = ALL
) -> dict[str, float]:
    """Runs a request of every call, run, loop pass and chunk, by site.

    `options` go before the defaults of the spec.
    """
    counter = _Counter(program, options or {}, taken)
    # Streams lead from machine to machine: twice through covers any order, and cycles end.
    for _ in range(2):
        counter.runs.clear()
        counter.sent.clear()
        for machine in program.machines:
            for state in machine.states:
                counter.body(state.body, taken.of_state(machine.name, state.name))
        counter.items = dict(counter.sent)
    return counter.runs


def expected_bound(
    program: Program, bound: Expr, options: Mapping[str, float] | None = None
) -> float:
    """Passes of a loop with this bound, never less than none."""
    return max(0.0, _Counter(program, options or {}).bound(bound))


def new_items(policy: Policy) -> int:
    """Items that a full chunk hands over for the first time."""
    return policy.stride if policy.kind == "sliding" else policy.size


class _Counter:
    def __init__(self, program: Program, options: Mapping[str, float], taken: Taken = ALL) -> None:
        self.taken = taken
        self.walks: Mapping[str, Walk] = {walk.name: walk for walk in program.walks}
        self.streams = {stream.name: stream for stream in program.streams}
        self.defaults = {
            option.name: options.get(option.name, option.default) for option in program.options
        }
        self.lets = {let.name: let.value for let in program.lets}
        self.runs: dict[str, float] = {}
        self.sent: dict[str, float] = {}
        self.items: dict[str, float] = {}

    def body(self, body: Iterable[Statement], times: float) -> None:
        for statement in body:
            self.statement(statement, times)

    def count(self, site: str, times: float) -> None:
        self.runs[site] = self.runs.get(site, 0.0) + times

    def statement(self, statement: Statement, times: float) -> None:
        match statement:
            case Call(site=site):
                self.count(site, times)
            case Run(site=site, walk=walk):
                self.count(site, times)
                self.body(self.walks[walk].body, times)
            case Loop(site=site, bound=bound, body=body):
                passes = max(0.0, self.bound(bound))
                self.count(site, times * passes)
                self.body(body, times * passes)
            case Each(site=site, streams=streams, body=body):
                stream = self.streams[streams[0]]
                policy = statement.policy or stream.policy
                sent = self.items.get(stream.name, UNKNOWN_BOUND)
                # The first chunk of a sliding window takes more items than the others bring.
                rest = sent - (policy.size - new_items(policy))
                chunks = max(1.0, rest / new_items(policy)) if sent else 0.0
                self.count(site, times * chunks)
                self.body(body, times * chunks)
            case Send(stream=stream_name, values=values):
                more = times * len(values)
                self.sent[stream_name] = self.sent.get(stream_name, 0.0) + more
            case ForParts(body=body):
                self.body(body, times)
            case When(then=then, otherwise=otherwise):
                self.body(then, times)
                self.body(otherwise, times)
            case Parallel(branches=branches):
                for branch in branches:
                    self.body(branch, times)
            case Match(arms=arms):
                for arm in arms:
                    self.body(arm.body, times * self.taken.of_part(arm.kind))
            case _:
                pass

    def bound(self, expr: Expr) -> float:
        match expr:
            case Const(value) if isinstance(value, int | float):
                return float(value)
            case Option(name):
                default = self.defaults.get(name)
                return float(default) if isinstance(default, int | float) else UNKNOWN_BOUND
            case LetRef(name) if name in self.lets:
                return self.bound(self.lets[name])
            case Unary("-", operand):
                return -self.bound(operand)
            case Binary("+", left, right):
                return self.bound(left) + self.bound(right)
            case Binary("-", left, right):
                return self.bound(left) - self.bound(right)
            case Binary("*", left, right):
                return self.bound(left) * self.bound(right)
            case _:
                return UNKNOWN_BOUND

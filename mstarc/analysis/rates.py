"""How often each site runs in one request, and how many items a stream carries, as expected.

A bound that is an option counts at its default; `while` and `until` count as if they never stop. A
branch of a choice counts for the requests that take it, where these are known, and else always. The
numbers rank placements and size nothing that must hold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    Has,
    LetRef,
    Local,
    Member,
    Option,
    Unary,
    Wants,
)
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
from mstarc.ir.interpret.evaluate import Evaluator, Scope
from mstarc.ir.interpret.request import Request
from mstarc.ir.walking import map_expr, subexpressions
from mstarc.records import dataclass

# What counts for a bound that is no literal and no option.
UNKNOWN_BOUND = 16.0

# What a condition may ask for that is the same all through a request.
_OF_REQUEST = (Const, Option, LetRef, Wants, Has, Unary, Binary, Member)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRequest:
    """One kind of request: its share of all, and the (machine, state)s that it takes."""

    share: float
    request: Request
    states: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How often a request is in each (machine, state), and has parts of each kind; what kinds of
    request there are.

    Without one of them every state is taken once, each kind of part is there once, and all branches
    are taken.
    """

    states: Mapping[tuple[str, str], float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    requests: tuple[KnownRequest, ...] = ()

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
                counter.enter(machine.name, state.name)
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
        self.known = [(each, Evaluator(program, each.request)) for each in taken.requests]
        # Those that take the state at hand, and what the parameters of the walk at hand stand for.
        self.here: list[tuple[float, Evaluator]] = []
        self.given: dict[str, Expr] = {}
        self.runs: dict[str, float] = {}
        self.sent: dict[str, float] = {}
        self.items: dict[str, float] = {}

    def enter(self, machine: str, state: str) -> None:
        """What is counted from here on is of this state."""
        taking = [(known, e) for known, e in self.known if (machine, state) in known.states]
        total = sum(known.share for known, _ in taking)
        self.here = [(known.share / total, evaluator) for known, evaluator in taking]

    def shares(self, condition: Expr) -> tuple[float, float]:
        """How many of the requests that come here take each branch of a choice."""

        def given(part: Expr) -> Expr:
            return self.given.get(part.name, part) if isinstance(part, Local) else part

        asked = map_expr(condition, given)
        if not self.here or not all(isinstance(p, _OF_REQUEST) for p in subexpressions(asked)):
            return 1.0, 1.0
        held = sum(share for share, e in self.here if e.evaluate(asked, Scope()))
        return held, 1.0 - held

    def walk(self, walk: Walk, arguments: Iterable[Expr], times: float) -> None:
        outer = self.given
        names = [parameter.name for parameter in walk.parameters]
        self.given = dict(zip(names, arguments, strict=True))
        self.body(walk.body, times)
        self.given = outer

    def body(self, body: Iterable[Statement], times: float) -> None:
        for statement in body:
            self.statement(statement, times)

    def count(self, site: str, times: float) -> None:
        self.runs[site] = self.runs.get(site, 0.0) + times

    def statement(self, statement: Statement, times: float) -> None:
        match statement:
            case Call(site=site):
                self.count(site, times)
            case Run(site=site, walk=walk, arguments=arguments):
                self.count(site, times)
                self.walk(self.walks[walk], arguments, times)
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
            case When(condition=condition, then=then, otherwise=otherwise):
                taken, left = self.shares(condition)
                self.body(then, times * taken)
                self.body(otherwise, times * left)
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

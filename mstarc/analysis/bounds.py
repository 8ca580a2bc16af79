"""Upper bounds that hold: of a loop's passes, and of the items a stream can ever carry."""

from collections.abc import Iterable

from mstarc.analysis.types import types_in
from mstarc.ir.exprs import Binary, Const, Expr, LetRef, Local, Option
from mstarc.ir.folding import fold
from mstarc.ir.graph import (
    Each,
    ForParts,
    Loop,
    Match,
    Parallel,
    Program,
    Run,
    Send,
    State,
    Statement,
    Stream,
    When,
)
from mstarc.ir.types import DimConst, OptionalType, TensorType, TupleType, Type
from mstarc.ir.walking import statements_of


def upper_bound(program: Program, expr: Expr) -> int | None:
    """The largest that an integer expression can be, or None where there is no such number."""
    match fold(expr):
        case Const(int(value)):
            return value
        case Option(name):
            option = next(option for option in program.options if option.name == name)
            if option.domain is None:
                return None
            highest = max(v for v in option.domain[1] if isinstance(v, int | float))
            return int(highest)
        case LetRef(name):
            let = next(let for let in program.lets if let.name == name)
            return upper_bound(program, let.value)
        case Binary("+" | "*" as operator, left, right):
            a, b = upper_bound(program, left), upper_bound(program, right)
            if a is None or b is None:
                return None
            return a + b if operator == "+" else a * b
        case Binary("-", left, Const(int(value))):
            bound = upper_bound(program, left)
            return None if bound is None else bound - value
        case _:
            return None


def burst(program: Program, stream: Stream, max_tokens: int) -> int:
    """The most items that one send hands over: 1, a tensor's leading dim, or `max_tokens`."""
    largest = 1
    for _, types, body in types_in(program):
        for statement in statements_of(body):
            if isinstance(statement, Send) and statement.stream == stream.name:
                value = statement.values[0]
                type_ = types.get(value.name) if isinstance(value, Local) else None
                largest = max(largest, _items(type_, stream, max_tokens))
    return largest


def _items(type_: Type | None, stream: Stream, max_tokens: int) -> int:
    item = stream.item
    if isinstance(type_, OptionalType):
        type_ = type_.item
    if not (isinstance(type_, TensorType) and type_.dims):
        return 1
    first = item.fields[0][1] if isinstance(item, TupleType) else item
    rank = len(first.dims) if isinstance(first, TensorType) else 0
    if len(type_.dims) == rank:
        return 1
    leading = type_.dims[0]
    return leading.value if isinstance(leading, DimConst) else max_tokens


def most_items(program: Program, stream: Stream, max_tokens: int) -> int | None:
    """The most items that a request can send to a stream, or None where nothing bounds them."""
    return _Most(program, max_tokens).sent(stream.name, ())


class _Most:
    def __init__(self, program: Program, max_tokens: int) -> None:
        self.program = program
        self.max_tokens = max_tokens
        self.walks = {walk.name: walk for walk in program.walks}
        self.streams = {stream.name: stream for stream in program.streams}
        self.machines = {machine.name: machine for machine in program.machines}

    def sent(self, name: str, above: tuple[str, ...]) -> int | None:
        if name in above:
            return None
        stream = self.streams[name]
        machine = self.machines[stream.producer]
        if _may_repeat(machine.states):
            return None
        size = burst(self.program, stream, self.max_tokens)
        sends = self.sends([s for state in machine.states for s in state.body], name, above)
        return None if sends is None else sends * size

    def sends(self, body: Iterable[Statement], name: str, above: tuple[str, ...]) -> int | None:
        total = 0
        for statement in body:
            count = self.statement(statement, name, above)
            if count is None:
                return None
            total += count
        return total

    def statement(self, statement: Statement, name: str, above: tuple[str, ...]) -> int | None:
        match statement:
            case Send(stream=stream):
                return 1 if stream == name else 0
            case Run(walk=walk):
                return self.sends(self.walks[walk].body, name, above)
            case Loop(body=body, bound=bound):
                return _times(self.sends(body, name, above), upper_bound(self.program, bound))
            case Each(body=body, streams=streams):
                inner = self.sends(body, name, above)
                return 0 if inner == 0 else _times(inner, self.sent(streams[0], (*above, name)))
            case ForParts(body=body):
                return 0 if self.sends(body, name, above) == 0 else None
            case When(then=then, otherwise=otherwise):
                return self.sends((*then, *otherwise), name, above)
            case Parallel(branches=branches):
                return self.sends([s for branch in branches for s in branch], name, above)
            case Match(arms=arms):
                return self.sends([s for arm in arms for s in arm.body], name, above)
            case _:
                return 0


def _times(count: int | None, passes: int | None) -> int | None:
    if count == 0:
        return 0
    return None if count is None or passes is None else count * max(passes, 0)


def _may_repeat(states: tuple[State, ...]) -> bool:
    """Whether a state may come after itself: counts of a pass then bound nothing."""
    follow = {state.name: {state.next.target, state.next.otherwise} for state in states}
    for name in follow:
        seen: set[str | None] = set()
        pending = list(follow[name])
        while pending:
            target = pending.pop()
            if target == name:
                return True
            if target not in seen and target in follow:
                seen.add(target)
                pending.extend(follow[target])
    return False

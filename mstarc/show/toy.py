"""Requests that show what a model does in few steps, and their traces.

A toy request is small: loops that an option bounds make few passes, and numbers that end a chunk
(the end of a clause) come often. Several are tried, and the one whose streams and outputs show most
is kept; one more trace is made for each set of outputs that a client may ask for.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations, product

from mstarc.ir.exprs import Binary, Const, Expr, LetRef, Member, Option
from mstarc.ir.graph import InputField, Loop, OptionField, Program
from mstarc.ir.interpret import Part, Request
from mstarc.ir.types import PartsType, ScalarType
from mstarc.ir.walking import all_statements, subexpressions
from mstarc.plan.words import spec_expr
from mstarc.records import dataclass
from mstarc.show.trace import Trace, run_trace

MANY_EVENTS = 420
"""More than this is tedious to step through."""

_BOUNDS = (4, 8, 16, 32, 50, 64)
_VARIATIONS = 3
_MOST_RUNS = 6
_SAID = {"text": "hello", "image": "a picture", "audio": "a question", "video": "a film"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRun:
    """A request in words, and what happens to it."""

    title: str
    inputs: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    trace: Trace


def toy_runs(program: Program) -> tuple[ToyRun, ...]:
    """One run for each set of outputs that a client may ask for, the fullest first."""
    runs: list[ToyRun] = []
    for wants in _wishes(program):
        request, trace = _best(program, wants)
        if trace.error is not None and runs:
            continue
        if runs and runs[0].trace.error is not None:
            runs.clear()
        options = {option.name: option.default for option in program.options}
        options.update(request.options)
        runs.append(
            ToyRun(
                title=f"asks for {_listed(wants)}" if wants else "asks for nothing",
                inputs=tuple(
                    (name, _in_words(value))
                    for name, value in request.inputs.items()
                    if value is not None
                ),
                options=tuple((name, spec_expr(Const(value))) for name, value in options.items()),
                trace=trace,
            )
        )
        if len(runs) == _MOST_RUNS:
            break
    return tuple(runs)


def _wishes(program: Program) -> Iterator[tuple[str, ...]]:
    """What clients may ask for: everything, each optional output alone, then two of them."""
    optional = [output.name for output in program.outputs if output.optional]
    chosen = [*((name,) for name in optional), *combinations(optional, 2)]
    wishes = [tuple(optional), *chosen] if optional else [()]
    for wish in dict.fromkeys(wishes):
        yield tuple(o.name for o in program.outputs if not o.optional or o.name in wish)


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _best(program: Program, wants: tuple[str, ...]) -> tuple[Request, Trace]:
    """The request whose trace shows most; the shorter one of equals."""
    found: list[tuple[tuple[int, int], Request, Trace]] = []
    counts = _counting_options(program)
    for bound in _BOUNDS:
        tokens = _tokens(program, bound)
        variations = range(_VARIATIONS if tokens else 1)
        for variation, gives_all in product(variations, _optional_inputs(program)):
            request = Request(
                inputs={
                    entry.name: _input(entry, variation, gives_all) for entry in program.inputs
                },
                options={
                    option.name: value
                    for option in program.options
                    if option.name in counts and (value := _small(option, bound)) is not None
                },
                wants=frozenset(wants),
                tokens=tokens,
            )
            trace = run_trace(program, request)
            found.append((_merit(program, trace), request, trace))
        best = max(merit for (merit, _), _, _ in found)
        if best >= _full_merit(program) or len(found[-1][2].events) > MANY_EVENTS:
            break
    _, request, trace = max(found, key=lambda entry: entry[0])
    return request, trace


def _counting_options(program: Program) -> frozenset[str]:
    """Options that say how often something is done: those in the bounds of loops."""
    lets = {let.name: let.value for let in program.lets}
    waiting: list[Expr] = [s.bound for s in all_statements(program) if isinstance(s, Loop)]
    found: set[str] = set()
    while waiting:
        for part in subexpressions(waiting.pop()):
            if isinstance(part, Option):
                found.add(part.name)
            elif isinstance(part, LetRef) and part.name in lets:
                waiting.append(lets.pop(part.name))
    return frozenset(found)


def _full_merit(program: Program) -> int:
    return 100 + 3 * len(program.streams)


def _merit(program: Program, trace: Trace) -> tuple[int, int]:
    """How much a trace shows: that it ends well, and up to three chunks a stream."""
    merit = 0 if trace.error is not None or trace.stuck or trace.is_cut else 100
    for stream in program.streams:
        if stream.producer in trace.off or stream.consumer in trace.off:
            merit += 3
            continue
        reads = sum(e.kind in ("read", "pull") and e.name == stream.name for e in trace.events)
        merit += min(3, reads)
    if len(trace.events) > MANY_EVENTS:
        merit -= 10 * (1 + len(trace.events) // MANY_EVENTS)
    return merit, -len(trace.events)


def _optional_inputs(program: Program) -> tuple[bool, ...]:
    """Whether to give the optional inputs: not, and where there are any also all of them."""
    return (False, True) if any(entry.optional for entry in program.inputs) else (False,)


def _input(entry: InputField, variation: int, gives_all: bool) -> object:
    if entry.optional and not gives_all:
        return None
    number = "" if variation == 0 else f" {variation + 1}"
    if not isinstance(entry.type, PartsType):
        kind = getattr(entry.type, "kind", "text")
        return f"{_SAID.get(str(kind), 'something')}{number}"
    kinds = [kind.kind for kind in entry.type.kinds]
    wanted = [kind for kind in kinds if kind != "text"][:1] + ["text"] * ("text" in kinds)
    count = max(entry.at_least, len(wanted), 1)
    return tuple(
        Part(kind=kind, value=f"{_SAID.get(kind, kind)}{number}")
        for kind in (wanted * count)[:count]
    )


def _small(option: OptionField, bound: int) -> int | None:
    """A small value of an option that counts something; none to leave its default."""
    is_count = option.type == ScalarType("int") and isinstance(option.default, int)
    if not is_count or option.domain is None or option.domain[0] != "range":
        return None
    low, high = option.domain[1]
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert isinstance(option.default, int)
    return max(low, min(high, bound, option.default))


def _tokens(program: Program, bound: int) -> tuple[int, ...]:
    """Numbers that toy tokens hit often: ends of chunks, and of loops that are long otherwise."""
    conditions: list[Expr | None] = [stream.policy.stop for stream in program.streams]
    for statement in all_statements(program):
        if not isinstance(statement, Loop):
            continue
        match statement.bound:
            case Const(int(passes)) if passes > bound:
                conditions += [statement.condition, statement.until]
            case _:
                pass
    return tuple(sorted({number for whole in conditions if whole for number in _numbers(whole)}))


def _numbers(condition: Expr) -> Iterator[int]:
    for part in subexpressions(condition):
        match part:
            case Binary("==" | "!=", left, right):
                yield from _integers((left, right))
            case Member(_, items):
                yield from _integers((items,))
            case _:
                pass


def _integers(exprs: Iterable[Expr]) -> Iterator[int]:
    for expr in exprs:
        if isinstance(expr, Const):
            values = expr.value if isinstance(expr.value, tuple) else (expr.value,)
            yield from (value for value in values if type(value) is int)


def _in_words(value: object) -> str:
    if isinstance(value, tuple):
        return ", then ".join(f"{part.kind}: {part.value}" for part in value)
    return str(value)

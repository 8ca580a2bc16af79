"""Kinds of requests → the one expected request that costs are estimated for.

Which machines run, and in which states, is what each kind's outputs, parts and options decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mstarc.analysis.cost_table import Mix
from mstarc.analysis.lengths import DEFAULT_ROWS
from mstarc.analysis.rates import KnownRequest, Taken
from mstarc.deployment.mix import RequestKind
from mstarc.ir.exprs import Option
from mstarc.ir.graph import ForParts, Loop, Program
from mstarc.ir.interpret.evaluate import Evaluator, Scope
from mstarc.ir.interpret.request import Part, Request
from mstarc.ir.walking import all_statements, bodies_of, statements_of


def mix_of(program: Program, kinds: Sequence[RequestKind], at_once: int | None = None) -> Mix:
    """The mean request; of no kinds, the usual one.

    Passes of a loop that an option bounds count as that option.
    """
    if not kinds:
        return Mix(at_once=at_once)
    total = sum(kind.share for kind in kinds)
    weights = [kind.share / total for kind in kinds]
    rows = sum(
        weight * (kind.rows.mean if kind.rows is not None else DEFAULT_ROWS)
        for weight, kind in zip(weights, kinds, strict=True)
    )
    bounds = _bounding_options(program)
    options: dict[str, float] = {}
    defaults = {o.name: o.default for o in program.options if isinstance(o.default, int | float)}
    for name, default in defaults.items():
        values = [_value(kind, name, float(default), bounds) for kind in kinds]
        mean = sum(weight * value for weight, value in zip(weights, values, strict=True))
        if mean != default:
            options[name] = mean
    states: dict[tuple[str, str], float] = {}
    parts: dict[str, float] = {}
    requests: list[KnownRequest] = []
    known = all(kind.parts for kind in kinds)
    for weight, kind in zip(weights, kinds, strict=True):
        request = _request_of(program, kind)
        taken = frozenset(_taken_states(program, request))
        for state in sorted(taken):
            states[state] = states.get(state, 0.0) + weight
        if known or not _over(program):
            requests.append(KnownRequest(share=weight, request=request, states=taken))
        for name, count in kind.parts.items():
            parts[name] = parts.get(name, 0.0) + weight * count
    return Mix(
        rows=max(1, round(rows)),
        options=options,
        at_once=at_once,
        taken=Taken(states=states, parts=parts if known else {}, requests=tuple(requests)),
    )


def _over(program: Program) -> set[str]:
    """The inputs that come in parts."""
    return {s.over for s in all_statements(program) if isinstance(s, ForParts)}


def _request_of(program: Program, kind: RequestKind) -> Request:
    over = _over(program)
    inputs: dict[str, Any] = {}
    for given in program.inputs:
        if given.name in over:
            counts = kind.parts.items()
            inputs[given.name] = tuple(
                Part(kind=name, value=None) for name, count in counts for _ in range(count)
            )
        elif not given.optional:
            inputs[given.name] = True
    wants = frozenset(kind.wants or [output.name for output in program.outputs])
    return Request(inputs=inputs, options=dict(kind.options), wants=wants)


def _taken_states(program: Program, request: Request) -> Iterator[tuple[str, str]]:
    """Each (machine, state) that a request is in."""
    evaluator = Evaluator(program, request)
    for machine in program.machines:
        if machine.condition is not None and not evaluator.evaluate(machine.condition, Scope()):
            continue
        states = {state.name: state for state in machine.states}
        name: str | None = machine.states[0].name
        seen: set[str] = set()
        while name in states and name not in seen:
            seen.add(name)
            yield machine.name, name
            go = states[name].next
            holds = go.condition is None or evaluator.evaluate(go.condition, Scope())
            name = go.target if holds else go.otherwise


def _value(kind: RequestKind, option: str, default: float, bounds: Mapping[str, str]) -> float:
    given = kind.options.get(option, default)
    value = float(given) if isinstance(given, int | float) else default
    passes = [found.mean for walk, found in kind.passes.items() if bounds.get(walk) == option]
    return min(value, *passes) if passes else value


def _bounding_options(program: Program) -> dict[str, str]:
    """The option that bounds the first loop of each walk and of each `machine.state`."""
    found: dict[str, str] = {}
    for name, body in bodies_of(program):
        for statement in statements_of(body):
            if isinstance(statement, Loop) and isinstance(statement.bound, Option):
                found.setdefault(name, statement.bound.name)
    return found

"""Kinds of requests → the one expected request that costs are estimated for."""

from collections.abc import Mapping, Sequence

from mstarc.analysis.cost_table import Mix
from mstarc.analysis.lengths import DEFAULT_ROWS
from mstarc.deployment.mix import RequestKind
from mstarc.ir.exprs import Option
from mstarc.ir.graph import Loop, Program
from mstarc.ir.walking import bodies_of, statements_of


def mix_of(program: Program, kinds: Sequence[RequestKind]) -> Mix:
    """The mean request. Passes of a loop that an option bounds count as that option."""
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
    return Mix(rows=max(1, round(rows)), options=options)


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

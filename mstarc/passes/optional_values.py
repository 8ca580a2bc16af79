"""Values that may be none, for `split_optional_arguments`: who takes them, and copies of calls.

`OptionalParameters` knows which parameters may be given none. A call is copied with `none` in place
of a value, at a site of its own, and a definition that is sure gets a type without `or none`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mstarc.ir.exprs import Const, Local
from mstarc.ir.graph import Assign, Call, Program, Pull, Run, SetRegister, Statement, Value, When
from mstarc.ir.types import OptionalType


class OptionalParameters:
    """Which parameters of ops and walks may be given none."""

    def __init__(self, program: Program) -> None:
        self._ops = {
            (node.name, op.name): tuple(isinstance(p.type, OptionalType) for p in op.parameters)
            for node in program.nodes
            for op in node.ops
        }
        self._walks = {
            walk.name: tuple(isinstance(p.type, OptionalType) for p in walk.parameters)
            for walk in program.walks
        }

    def given(self, call: Call | Run) -> Iterator[str]:
        """The values that a call gives to such parameters, each once."""
        flags = self._ops[call.node, call.op] if isinstance(call, Call) else self._walks[call.walk]
        found = [
            argument.name
            for argument, may_be_none in zip(call.arguments, flags, strict=True)
            if may_be_none and isinstance(argument, Local)
        ]
        yield from dict.fromkeys(found)


def without_value(call: Call | Run, name: str) -> Call | Run:
    """The call with `none` in place of a value."""
    arguments = tuple(Const(None) if a == Local(name) else a for a in call.arguments)
    return replace(call, arguments=arguments)


def certain(value: Value, names: set[str]) -> Value:
    """A definition, without `or none` where it is one of `names`."""
    if value.name in names and isinstance(value.type, OptionalType):
        return replace(value, type=value.type.item)
    return value


def retyped(statement: Statement, names: set[str]) -> Statement:
    """A statement whose definitions of `names` have types without `or none`."""
    match statement:
        case Call(results=results) | Run(results=results):
            made = tuple(None if value is None else certain(value, names) for value in results)
            return replace(statement, results=made)
        case Assign(result=result) | SetRegister(result=result) | Pull(result=result):
            return replace(statement, result=certain(result, names))
        case When(results=results):
            return replace(statement, results=tuple(certain(value, names) for value in results))
        case _:
            return statement


@dataclass(slots=True)
class Sites:
    """Sites of copies: the first keeps its own."""

    used: dict[str, int] = field(default_factory=dict)

    def next(self, site: str) -> str:
        """The site of one more copy."""
        count = self.used.get(site, 0)
        self.used[site] = count + 1
        return site if count == 0 else f"{site}.{count}"

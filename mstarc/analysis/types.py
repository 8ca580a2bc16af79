"""Types of the names that a body may use."""

from collections.abc import Iterator

from mstarc.ir.graph import Each, Loop, Match, Program, Value
from mstarc.ir.types import Type
from mstarc.ir.walking import Body, definitions_of, statements_of


def types_in(program: Program) -> Iterator[tuple[str, dict[str, Type], Body]]:
    """Every body by the prefix of its sites (`walk`, `machine.state`), with its names' types."""
    for walk in program.walks:
        yield walk.name, _types((*walk.parameters, *_values(walk.body))), walk.body
    for machine in program.machines:
        for state in machine.states:
            values = (*machine.registers, *_values(state.body))
            yield f"{machine.name}.{state.name}", _types(values), state.body


def _types(values: tuple[Value, ...]) -> dict[str, Type]:
    return {value.name: value.type for value in values}


def _values(body: Body) -> Iterator[Value]:
    for statement in statements_of(body):
        yield from definitions_of(statement)
        if isinstance(statement, Loop):
            yield from (carry.value for carry in statement.carries)
        if isinstance(statement, Each):
            yield from statement.names
        if isinstance(statement, Match):
            yield from (arm.value for arm in statement.arms)

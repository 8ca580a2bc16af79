"""The ranks that the calls of a body are on, those of the walks that it runs too."""

from collections.abc import Mapping

from mstarc.ir.graph import Call, Machine, Program, Run, Statement, Walk
from mstarc.ir.walking import statements_of


def last_rank(body: tuple[Statement, ...], walks: Mapping[str, Walk]) -> int | None:
    """The rank of the last call of a body; none where nothing is called."""
    ranks = _ranks(body, walks)
    return ranks[-1] if ranks else None


def first_rank(body: tuple[Statement, ...], walks: Mapping[str, Walk]) -> int | None:
    """The rank of the first call of a body; none where nothing is called."""
    ranks = _ranks(body, walks)
    return ranks[0] if ranks else None


def starting_rank(program: Program, machine: Machine) -> int:
    """The rank of the first call; that of a machine without calls is the first of all."""
    body = tuple(s for state in machine.states for s in state.body)
    rank = first_rank(body, {walk.name: walk for walk in program.walks})
    assert program.placement is not None
    return program.placement.ranks[0] if rank is None else rank


def _ranks(body: tuple[Statement, ...], walks: Mapping[str, Walk]) -> list[int]:
    ranks: list[int] = []
    for statement in statements_of(body):
        if isinstance(statement, Call):
            ranks += statement.ranks[:1]
        elif isinstance(statement, Run):
            ranks += _ranks(walks[statement.walk].body, walks)
    return ranks

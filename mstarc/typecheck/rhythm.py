"""Whether two streams are sent in step: the same number of items, whatever the request."""

from collections import Counter
from collections.abc import Hashable, Iterator

from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.state import State
from mstarc.typecheck.statics import formula, static_dim
from mstarc.typecheck.types import TensorType, TupleType, Type

Place = tuple[Hashable, ...]


def rhythm(machine: ast.MachineDecl, stream: Symbol, state: State) -> Counter[Place]:
    """Where a machine sends to a stream, and how many items each time.

    Two streams with equal rhythms get equally many items. A loop that runs a known number of times
    counts as that number, so that two machines can be in step; any other is in step with itself.
    """
    found: Counter[Place] = Counter()
    for entry in machine.states:
        found.update(_in_block(entry.body.statements, stream, state, (), ()))
    return found


def _in_block(
    statements: tuple[ast.Stmt, ...],
    stream: Symbol,
    state: State,
    place: Place,
    walks: tuple[str, ...],
) -> Iterator[Place]:
    for statement in statements:
        match statement:
            case ast.Send() if state.resolved.meaning(statement.stream) is stream:
                condition: Hashable = None
                if statement.condition is not None and statement.condition in state.types:
                    condition = formula(statement.condition, state)
                yield (*place, condition, _items(statement, stream, state))
            case ast.RunStmt(call=call) | ast.Assign(value=ast.RunCall() as call):
                walk = state.walks.get(call.walk.text)
                if walk is not None and walk.name not in walks:
                    body = walk.decl.body.statements
                    yield from _in_block(body, stream, state, place, (*walks, walk.name))
            case ast.Loop():
                body = statement.body.statements
                yield from _in_block(
                    body, stream, state, (*place, _passes(statement, state)), walks
                )
            case ast.Parallel():
                yield from _in_block(statement.body.statements, stream, state, place, walks)
            case ast.For() | ast.Each():
                body = statement.body.statements
                yield from _in_block(body, stream, state, (*place, statement), walks)
            case ast.Match():
                for arm in statement.arms:
                    inner = (*place, arm)
                    yield from _in_block(arm.body.statements, stream, state, inner, walks)
            case ast.When():
                yield from _in_when(statement, stream, state, place, walks)
            case _:
                pass


def _in_when(
    when: ast.When, stream: Symbol, state: State, place: Place, walks: tuple[str, ...]
) -> Iterator[Place]:
    then = (*place, when, True)
    yield from _in_block(when.then.statements, stream, state, then, walks)
    otherwise = (*place, when, False)
    if isinstance(when.otherwise, ast.When):
        yield from _in_when(when.otherwise, stream, state, otherwise, walks)
    elif when.otherwise is not None:
        yield from _in_block(when.otherwise.statements, stream, state, otherwise, walks)


def _passes(loop: ast.Loop, state: State) -> Hashable:
    is_sure = loop.bound.kind == "times"
    if not is_sure or loop.while_condition is not None or loop.until_condition is not None:
        return loop
    count = static_dim(loop.bound.count, state)
    return loop if count is None else count


def _items(send: ast.Send, stream: Symbol, state: State) -> Hashable:
    info = state.streams.get(stream.name)
    if info is None:
        return send
    item = info.item
    wanted = [entry for _, entry in item.fields] if isinstance(item, TupleType) else [item]
    for value, entry in zip(send.values, wanted, strict=False):
        found = state.types.get(value)
        if isinstance(found, TensorType) and len(found.dims) == _rank(entry) + 1:
            return found.dims[0]
    return 1


def _rank(type_: Type) -> int:
    return len(type_.dims) if isinstance(type_, TensorType) else 0

"""How many items a machine sends to a stream at most, where config and options bound it."""

from mstarc.names import Symbol
from mstarc.syntax import ast
from mstarc.typecheck.state import State
from mstarc.typecheck.types import TensorType, TupleType, Type


def most_items(machine: ast.MachineDecl, stream: Symbol, state: State) -> int | None:
    """The most items in one request; None where nothing bounds them."""
    total = 0
    for entry in machine.states:
        count = _in_block(entry.body.statements, stream, state, ())
        if count is None:
            return None
        total += count
    return total


def _in_block(
    statements: tuple[ast.Stmt, ...], stream: Symbol, state: State, walks: tuple[str, ...]
) -> int | None:
    total = 0
    for statement in statements:
        count = _in_statement(statement, stream, state, walks)
        if count is None:
            return None
        total += count
    return total


def _in_statement(
    statement: ast.Stmt, stream: Symbol, state: State, walks: tuple[str, ...]
) -> int | None:
    match statement:
        case ast.Send():
            if state.resolved.meaning(statement.stream) is not stream:
                return 0
            return _items(statement, stream, state)
        case ast.RunStmt(call=call) | ast.Assign(value=ast.RunCall() as call):
            walk = state.walks.get(call.walk.text)
            if walk is None or walk.name in walks:
                return None
            body = walk.decl.body.statements
            return _in_block(body, stream, state, (*walks, walk.name))
        case ast.Loop():
            once = _in_block(statement.body.statements, stream, state, walks)
            if once == 0:
                return 0
            passes = most_of(statement.bound.count, state)
            return None if once is None or passes is None else once * max(0, passes)
        case ast.Parallel():
            return _in_block(statement.body.statements, stream, state, walks)
        case ast.When():
            return _in_when(statement, stream, state, walks)
        case ast.For() | ast.Each():
            # As often as there are parts or chunks: nothing bounds these.
            return 0 if _in_block(statement.body.statements, stream, state, walks) == 0 else None
        case ast.Match():
            counts = [
                _in_block(arm.body.statements, stream, state, walks) for arm in statement.arms
            ]
            known = [count for count in counts if count is not None]
            return max(known, default=0) if len(known) == len(counts) else None
        case _:
            return 0


def _in_when(when: ast.When, stream: Symbol, state: State, walks: tuple[str, ...]) -> int | None:
    then = _in_block(when.then.statements, stream, state, walks)
    otherwise: int | None = 0
    if isinstance(when.otherwise, ast.When):
        otherwise = _in_when(when.otherwise, stream, state, walks)
    elif when.otherwise is not None:
        otherwise = _in_block(when.otherwise.statements, stream, state, walks)
    return None if then is None or otherwise is None else max(then, otherwise)


def _items(send: ast.Send, stream: Symbol, state: State) -> int | None:
    """The items of one send: one, or the leading dim where that is a number."""
    info = state.streams.get(stream.name)
    if info is None:
        return None
    item = info.item
    wanted = [entry for _, entry in item.fields] if isinstance(item, TupleType) else [item]
    for value, entry in zip(send.values, wanted, strict=False):
        found = state.types.get(value)
        if _rank(found) == _rank(entry) + 1 and isinstance(found, TensorType):
            return found.dims[0].value
    return 1


def _rank(type_: Type | None) -> int:
    return len(type_.dims) if isinstance(type_, TensorType) else 0


def most_of(expr: ast.Expr, state: State) -> int | None:
    """The largest value of a whole number of config and options; None where it is not known."""
    match expr:
        case ast.Int():
            return expr.value
        case ast.Name():
            symbol = state.resolved.meaning(expr)
            if symbol is None:
                return None
            if symbol.kind == "config":
                value = state.config.get(symbol.name)
                return value if type(value) is int else None
            option = state.options.get(symbol.name) if symbol.kind == "option" else None
            if option is None or option.domain is None:
                return None
            top = max((v for v in option.domain[1] if type(v) is int), default=None)
            return top if type(top) is int else None
        case ast.Binary(op="+" | "*" as operator):
            left, right = most_of(expr.left, state), most_of(expr.right, state)
            if left is None or right is None or left < 0 or right < 0:
                return None
            return left + right if operator == "+" else left * right
        case ast.Binary(op="-", right=ast.Int(value=less)):
            left = most_of(expr.left, state)
            return None if left is None else left - less
        case _:
            return None

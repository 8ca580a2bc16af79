"""Replace every expression of a program, wherever one may stand."""

from collections.abc import Callable
from dataclasses import replace

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import (
    Assign,
    Call,
    Each,
    Emit,
    Fork,
    Loop,
    Machine,
    Node,
    Policy,
    Program,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Walk,
    When,
)
from mstarc.ir.walking import Body, map_statements

Change = Callable[[Expr], Expr]


def map_exprs(program: Program, change: Change) -> Program:
    """The program with each whole expression replaced by `change` of it, declarations included."""

    def body(statements: Body) -> Body:
        return map_statements(statements, lambda s: map_statement_exprs(s, change))

    def machine(old: Machine) -> Machine:
        states = tuple(
            replace(
                state,
                body=body(state.body),
                next=replace(state.next, condition=_maybe(state.next.condition, change)),
            )
            for state in old.states
        )
        return replace(old, condition=_maybe(old.condition, change), states=states)

    def walk(old: Walk) -> Walk:
        results = tuple(
            replace(result, condition=_maybe(result.condition, change)) for result in old.results
        )
        returns = tuple(map(change, old.returns))
        return replace(old, body=body(old.body), results=results, returns=returns)

    return replace(
        program,
        needs=tuple(replace(need, condition=change(need.condition)) for need in program.needs),
        lets=tuple(replace(let, value=change(let.value)) for let in program.lets),
        tables=tuple(
            replace(table, length=change(table.length), value=change(table.value))
            for table in program.tables
        ),
        nodes=tuple(_node(node, change) for node in program.nodes),
        streams=tuple(
            replace(stream, policy=_policy(stream.policy, change)) for stream in program.streams
        ),
        walks=tuple(walk(old) for old in program.walks),
        machines=tuple(machine(old) for old in program.machines),
    )


def _maybe(expr: Expr | None, change: Change) -> Expr | None:
    return None if expr is None else change(expr)


def _policy(policy: Policy, change: Change) -> Policy:
    return replace(policy, stop=_maybe(policy.stop, change))


def _settings(
    settings: tuple[tuple[str, Expr], ...], change: Change
) -> tuple[tuple[str, Expr], ...]:
    return tuple((name, change(value)) for name, value in settings)


def _node(node: Node, change: Change) -> Node:
    return replace(
        node,
        ops=tuple(
            replace(
                op,
                results=tuple(
                    replace(result, condition=_maybe(result.condition, change))
                    for result in op.results
                ),
                advance=_maybe(op.advance, change),
            )
            for op in node.ops
        ),
        kv=_settings(node.kv, change),
        contexts=tuple(
            replace(context, count=_maybe(context.count, change)) for context in node.contexts
        ),
        samplers=tuple((name, _settings(settings, change)) for name, settings in node.samplers),
    )


def map_statement_exprs(statement: Statement, change: Change) -> Statement:
    """A statement with its own expressions replaced, those of its blocks left as they are."""
    match statement:
        case Call(arguments=arguments, index=index):
            return replace(
                statement, arguments=tuple(map(change, arguments)), index=_maybe(index, change)
            )
        case Run(arguments=arguments):
            return replace(statement, arguments=tuple(map(change, arguments)))
        case Assign(value=value):
            return replace(statement, value=change(value))
        case SetRegister(value=value):
            return replace(statement, value=change(value))
        case Send(values=values, condition=condition):
            return replace(
                statement,
                values=tuple(map(change, values)),
                condition=_maybe(condition, change),
            )
        case Emit(value=value, condition=condition):
            return replace(statement, value=change(value), condition=_maybe(condition, change))
        case Fork():
            return replace(
                statement,
                target_index=_maybe(statement.target_index, change),
                source_index=_maybe(statement.source_index, change),
                condition=_maybe(statement.condition, change),
            )
        case Release(index=index):
            return replace(statement, index=_maybe(index, change))
        case Loop():
            return replace(
                statement,
                bound=change(statement.bound),
                carries=tuple(
                    replace(carry, initial=change(carry.initial)) for carry in statement.carries
                ),
                collects=tuple(
                    replace(collect, value=change(collect.value)) for collect in statement.collects
                ),
                condition=_maybe(statement.condition, change),
                until=_maybe(statement.until, change),
                yields=tuple(map(change, statement.yields)),
            )
        case When():
            return replace(
                statement,
                condition=change(statement.condition),
                then_yields=tuple(map(change, statement.then_yields)),
                otherwise_yields=tuple(map(change, statement.otherwise_yields)),
            )
        case Each(policy=policy):
            changed = _policy(policy, change) if policy is not None else None
            return replace(statement, policy=changed)
        case _:
            return statement

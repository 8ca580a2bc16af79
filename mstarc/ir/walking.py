"""Going through a program: statements in order, the blocks inside one, values, spans."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    Field,
    Has,
    Input,
    LetRef,
    Local,
    LoopIndex,
    Member,
    Option,
    PartAttribute,
    Shape,
    Slice,
    TableItem,
    Unary,
    Wants,
)
from mstarc.ir.graph import (
    Assign,
    Call,
    Each,
    Emit,
    Fork,
    ForParts,
    Loop,
    MarkStream,
    Match,
    Parallel,
    Program,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Value,
    When,
)
from mstarc.source import Span

Body = tuple[Statement, ...]


def blocks_of(statement: Statement) -> tuple[Body, ...]:
    """The bodies directly inside a statement, in order."""
    match statement:
        case Loop(body=body) | Each(body=body) | ForParts(body=body):
            return (body,)
        case When(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Parallel(branches=branches):
            return branches
        case Match(arms=arms):
            return tuple(arm.body for arm in arms)
        case (
            Call()
            | Assign()
            | Send()
            | Pull()
            | Emit()
            | Fork()
            | Release()
            | Run()
            | MarkStream()
            | SetRegister()
        ):
            return ()
        case _:
            assert_never(statement)


def with_blocks(statement: Statement, change: Callable[[Body], Body]) -> Statement:
    """The statement with each body directly inside it replaced by `change(body)`."""
    match statement:
        case Loop(body=body):
            return replace(statement, body=change(body))
        case Each(body=body):
            return replace(statement, body=change(body))
        case ForParts(body=body):
            return replace(statement, body=change(body))
        case When(then=then, otherwise=otherwise):
            return replace(statement, then=change(then), otherwise=change(otherwise))
        case Parallel(branches=branches):
            return replace(statement, branches=tuple(change(branch) for branch in branches))
        case Match(arms=arms):
            return replace(
                statement, arms=tuple(replace(arm, body=change(arm.body)) for arm in arms)
            )
        case _:
            return statement


def statements_of(body: Body) -> Iterator[Statement]:
    """All statements of a body and of the bodies inside, in source order."""
    for statement in body:
        yield statement
        for block in blocks_of(statement):
            yield from statements_of(block)


def bodies_of(program: Program) -> Iterator[tuple[str, Body]]:
    """Every walk's and state's body, with the prefix of its sites: `walk` or `machine.state`."""
    for walk in program.walks:
        yield walk.name, walk.body
    for machine in program.machines:
        for state in machine.states:
            yield f"{machine.name}.{state.name}", state.body


def all_statements(program: Program) -> Iterator[Statement]:
    """All statements of all walks, then of all machines."""
    for _, body in bodies_of(program):
        yield from statements_of(body)


def map_statements(
    body: Body, change: Callable[[Statement], Statement | tuple[Statement, ...]]
) -> Body:
    """The body with each statement, innermost first, replaced by what `change` gives for it."""
    result: list[Statement] = []
    for statement in body:
        inner = with_blocks(statement, lambda block: map_statements(block, change))
        new = change(inner)
        result.extend(new if isinstance(new, tuple) else (new,))
    return tuple(result)


def map_bodies(program: Program, change: Callable[[Body], Body]) -> Program:
    """The program with the body of each walk and state replaced."""
    return replace(
        program,
        walks=tuple(replace(walk, body=change(walk.body)) for walk in program.walks),
        machines=tuple(
            replace(
                machine,
                states=tuple(replace(state, body=change(state.body)) for state in machine.states),
            )
            for machine in program.machines
        ),
    )


def operands_of(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside an expression."""
    match expr:
        case TableItem(_, index):
            return (index,)
        case Field(value, _):
            return (value,)
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Member(item, items):
            return (item, items)
        case Slice(value, axes):
            ends = [
                end
                for axis in axes
                for end in (axis if isinstance(axis, tuple) else (axis,))
                if end is not None
            ]
            return (value, *ends)
        case Shape(_, arguments):
            return arguments
        case (
            Const()
            | Local()
            | Option()
            | Input()
            | LetRef()
            | LoopIndex()
            | PartAttribute()
            | Wants()
            | Has()
        ):
            return ()
        case _:
            assert_never(expr)


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """An expression and all inside it."""
    yield expr
    for operand in operands_of(expr):
        yield from subexpressions(operand)


def locals_of(expr: Expr | None) -> tuple[str, ...]:
    """Names of the values that an expression reads, in order, each once."""
    if expr is None:
        return ()
    return tuple(dict.fromkeys(e.name for e in subexpressions(expr) if isinstance(e, Local)))


def map_expr(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with each subexpression, innermost first, replaced by `change` of it."""

    def inner(part: Expr) -> Expr:
        return map_expr(part, change)

    new: Expr
    match expr:
        case TableItem(table, index):
            new = TableItem(table, inner(index))
        case Field(value, name):
            new = Field(inner(value), name)
        case Unary(operator, operand):
            new = Unary(operator, inner(operand))
        case Binary(operator, left, right):
            new = Binary(operator, inner(left), inner(right))
        case Member(item, items):
            new = Member(inner(item), inner(items))
        case Slice(value, axes):
            new = Slice(inner(value), tuple(_map_axis(axis, inner) for axis in axes))
        case Shape(function, arguments):
            new = Shape(function, tuple(inner(argument) for argument in arguments))
        case _:
            new = expr
    return change(new)


def _map_axis(
    axis: Expr | tuple[Expr | None, Expr | None], inner: Callable[[Expr], Expr]
) -> Expr | tuple[Expr | None, Expr | None]:
    if not isinstance(axis, tuple):
        return inner(axis)
    start, stop = axis
    return (
        inner(start) if start is not None else None,
        inner(stop) if stop is not None else None,
    )


def spans_of(program: Program) -> Iterator[Span]:
    """Every span that the program keeps."""
    for group in (
        program.inputs,
        program.outputs,
        program.options,
        program.needs,
        program.lets,
        program.tables,
        program.nodes,
        program.streams,
        program.walks,
        program.machines,
    ):
        yield from (item.span for item in group)
    for node in program.nodes:
        yield from (op.span for op in node.ops)
    for machine in program.machines:
        for state in machine.states:
            yield from (state.span, state.next.span)
    for statement in all_statements(program):
        yield statement.span
        if isinstance(statement, Match):
            yield from (arm.span for arm in statement.arms)


def definitions_of(statement: Statement) -> tuple[Value, ...]:
    """Values that are seen after a statement and were not before, its blocks' own left out."""
    match statement:
        case Call(results=results) | Run(results=results):
            return tuple(value for value in results if value is not None)
        case Assign(result=result) | Pull(result=result) | SetRegister(result=result):
            return (result,)
        case Loop(results=results, collects=collects):
            return (*results, *(collect.result for collect in collects))
        case When(results=results):
            return results
        case Parallel(branches=branches):
            return tuple(v for branch in branches for s in branch for v in definitions_of(s))
        case _:
            return ()


def reads_of(statement: Statement) -> tuple[Expr, ...]:
    """Expressions that a statement itself evaluates before its blocks; a loop's come before it."""
    match statement:
        case Call(arguments=arguments, index=index):
            return arguments if index is None else (*arguments, index)
        case Run(arguments=arguments):
            return arguments
        case Assign(value=value) | SetRegister(value=value):
            return (value,)
        case Send(values=values, condition=condition):
            return values if condition is None else (*values, condition)
        case Emit(value=value, condition=condition):
            return (value,) if condition is None else (value, condition)
        case Fork(condition=condition, target_index=target, source_index=source):
            return tuple(expr for expr in (target, source, condition) if expr is not None)
        case Release(index=index):
            return () if index is None else (index,)
        case When(condition=condition):
            return (condition,)
        case Loop(bound=bound, carries=carries):
            return (bound, *(carry.initial for carry in carries))
        case _:
            return ()

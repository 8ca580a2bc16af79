"""Print statements, one line each, bodies indented by two."""

from collections.abc import Callable, Iterator
from typing import assert_never

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import (
    Arm,
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
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Value,
    When,
)
from mstarc.ir.text.print_exprs import (
    format_expr,
    format_exprs,
    format_name,
    format_policy,
    format_site,
    format_type,
    format_value_name,
)
from mstarc.source import Span


def format_definition(value: Value) -> str:
    """`%token: i64`."""
    return f"{format_value_name(value.name)}: {format_type(value.type)}"


def format_definitions(values: tuple[Value | None, ...]) -> str:
    """Definitions with commas between; `_` where nobody takes a result."""
    return ", ".join("_" if value is None else format_definition(value) for value in values)


class StatementPrinter:
    """`loc` gives the text of a span, with a space before, or nothing."""

    def __init__(self, loc: Callable[[Span], str]) -> None:
        self.loc = loc

    def block(
        self,
        body: tuple[Statement, ...],
        indent: str,
        word: str = "yield",
        values: tuple[Expr, ...] = (),
    ) -> Iterator[str]:
        """The lines of a body, and of the values that it hands on."""
        for statement in body:
            yield from self.statement(statement, indent)
        if values:
            yield f"{indent}{word} {format_exprs(values)}"

    def statement(self, statement: Statement, indent: str) -> Iterator[str]:
        """The lines of one statement."""
        loc = self.loc(statement.span)
        match statement:
            case Call() | Run():
                yield f"{indent}{_call(statement)}{loc}"
            case Assign(result=result, value=value):
                yield f"{indent}{format_definition(result)} = {format_expr(value)}{loc}"
            case SetRegister(result=result, value=value):
                yield f"{indent}set {format_definition(result)} = {format_expr(value)}{loc}"
            case Send(stream=stream, values=values, condition=condition):
                text = f"send {format_name(stream)} <- {format_exprs(values)}"
                yield f"{indent}{text}{_if(condition)}{loc}"
            case Pull(stream=stream, result=result, or_none=or_none):
                none = " or none" if or_none else ""
                yield f"{indent}{format_definition(result)} = pull {format_name(stream)}{none}{loc}"
            case Emit(output=output, value=value, condition=condition):
                text = f"emit {format_name(output)} <- {format_expr(value)}"
                yield f"{indent}{text}{_if(condition)}{loc}"
            case Fork(node=node, condition=condition):
                name = format_name(node)
                target = f"{name}.{format_name(statement.target)}{_at(statement.target_index)}"
                source = f"{name}.{format_name(statement.source)}{_at(statement.source_index)}"
                yield f"{indent}fork {target} = {source}{_if(condition)}{loc}"
            case Release(node=node, context=context, index=index):
                text = f"release {format_name(node)}.{format_name(context)}{_at(index)}"
                yield f"{indent}{text}{loc}"
            case MarkStream(stream=stream, mark=mark):
                yield f"{indent}mark {format_name(stream)}.{format_name(mark)}{loc}"
            case Loop():
                yield f"{indent}{_loop_head(statement)}{loc} {{"
                yield from self.block(statement.body, indent + "  ", values=statement.yields)
                yield f"{indent}}}"
            case When():
                yield from self.when(statement, indent)
            case Parallel(branches=branches):
                yield f"{indent}parallel{loc} {{"
                for branch in branches:
                    yield f"{indent}  branch {{"
                    yield from self.block(branch, indent + "    ")
                    yield f"{indent}  }}"
                yield f"{indent}}}"
            case Each():
                yield f"{indent}{_each_head(statement)}{loc} {{"
                yield from self.block(statement.body, indent + "  ")
                yield f"{indent}}}"
            case ForParts(part=part, over=over, body=body):
                yield f"{indent}for {format_name(part)} in {format_name(over)}{loc} {{"
                yield from self.block(body, indent + "  ")
                yield f"{indent}}}"
            case Match(part=part, arms=arms):
                yield f"{indent}match {format_name(part)}{loc} {{"
                for arm in arms:
                    yield from self.arm(arm, indent + "  ")
                yield f"{indent}}}"
            case _:
                assert_never(statement)

    def when(self, when: When, indent: str) -> Iterator[str]:
        """A choice; `else` is printed where that branch does or yields anything."""
        results = f"{format_definitions(when.results)} = " if when.results else ""
        yield f"{indent}{results}when {format_expr(when.condition)}{self.loc(when.span)} {{"
        yield from self.block(when.then, indent + "  ", values=when.then_yields)
        if when.otherwise or when.otherwise_yields:
            yield f"{indent}}} else {{"
            yield from self.block(when.otherwise, indent + "  ", values=when.otherwise_yields)
        yield f"{indent}}}"

    def arm(self, arm: Arm, indent: str) -> Iterator[str]:
        """One arm of a match."""
        head = f"{format_name(arm.kind)} {format_definition(arm.value)}"
        yield f"{indent}{head}{self.loc(arm.span)} {{"
        yield from self.block(arm.body, indent + "  ")
        yield f"{indent}}}"


def _at(index: Expr | None) -> str:
    return f" [{format_expr(index)}]" if index is not None else ""


def _if(condition: Expr | None) -> str:
    return f" if {format_expr(condition)}" if condition is not None else ""


def _call(call: Call | Run) -> str:
    text = f"{format_definitions(call.results)} = " if call.results else ""
    if isinstance(call, Run):
        text += f"run {format_name(call.walk)}({format_exprs(call.arguments)})"
    else:
        text += f"{format_name(call.node)}.{format_name(call.op)}({format_exprs(call.arguments)})"
        if call.context is not None:
            text += f" on {format_name(call.context)}"
        text += _at(call.index)
        if call.over:
            text += f" each ({', '.join('true' if each else 'false' for each in call.over)})"
        if call.ranks:
            text += f" ranks [{', '.join(map(str, call.ranks))}]"
    return f"{text} {format_site(call.site)}"


def _loop_head(loop: Loop) -> str:
    text = f"{format_definitions(loop.results)} = " if loop.results else ""
    text += f"loop {loop.kind} {format_expr(loop.bound)}"
    if loop.index is not None:
        text += f" index {format_name(loop.index)}"
    if loop.carries:
        carries = ", ".join(
            f"{format_definition(carry.value)} = {format_expr(carry.initial)}"
            for carry in loop.carries
        )
        text += f" carry ({carries})"
    if loop.collects:
        collects = ", ".join(
            f"{format_definition(collect.result)} <- {format_expr(collect.value)}"
            for collect in loop.collects
        )
        text += f" collect ({collects})"
    if loop.condition is not None:
        text += f" while {format_expr(loop.condition)}"
    if loop.until is not None:
        text += f" until {format_expr(loop.until)}"
    return f"{text} {format_site(loop.site)}"


def _each_head(each: Each) -> str:
    streams = ", ".join(map(format_name, each.streams))
    text = f"each {streams} as {format_definitions(each.names)}"
    if each.last is not None:
        text += f" last {format_value_name(each.last)}"
    if each.policy is not None:
        text += f" chunk {format_policy(each.policy)}"
    if each.until is not None:
        text += f" until {format_name(each.until)}"
    return f"{text} {format_site(each.site)}"

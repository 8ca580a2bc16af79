"""Parse statements: the inverse of `print_statements`. `parse_calls` has calls and runs."""

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import (
    Arm,
    Assign,
    Carry,
    Collect,
    Each,
    Emit,
    Fork,
    ForParts,
    Loop,
    MarkStream,
    Match,
    Parallel,
    Policy,
    Pull,
    Release,
    Send,
    SetRegister,
    Statement,
    Value,
    When,
)
from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.parse_calls import Results, parse_call, parse_dotted, parse_index, parse_run
from mstarc.ir.text.parse_exprs import parse_expr, parse_type
from mstarc.ir.text.parse_policies import parse_policy
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """A body and what it hands on."""

    body: tuple[Statement, ...]
    values: tuple[Expr, ...] = ()


def parse_block(cursor: Cursor, word: str = "yield") -> Block:
    """Statements up to and with the closing brace; `word` begins the values handed on."""
    body: list[Statement] = []
    values: tuple[Expr, ...] = ()
    while not cursor.accept("}"):
        if cursor.at(word) and cursor.ahead().text != ".":
            cursor.take()
            values = parse_list(cursor)
            cursor.expect("}")
            break
        body.append(parse_statement(cursor))
    return Block(tuple(body), values)


def parse_list(cursor: Cursor) -> tuple[Expr, ...]:
    """One or more expressions with commas between."""
    items = [parse_expr(cursor)]
    while cursor.accept(","):
        items.append(parse_expr(cursor))
    return tuple(items)


def parse_definition(cursor: Cursor) -> Value:
    """`%token: i64`."""
    name = cursor.kind("value", "a value such as `%x`")
    cursor.expect(":")
    return Value(name=name, type=parse_type(cursor))


def parse_definitions(cursor: Cursor, close: str) -> tuple[Value, ...]:
    """Definitions with commas between, up to and with `close`."""
    items: list[Value] = []
    while not cursor.accept(close):
        items.append(parse_definition(cursor))
        if not cursor.at(close):
            cursor.expect(",")
    return tuple(items)


def parse_statement(cursor: Cursor) -> Statement:
    """One statement."""
    start = cursor.token.start
    if cursor.ahead().text == "." and cursor.token.kind in ("name", "string"):
        return parse_call(cursor, start, ())
    if cursor.token.kind == "value" or (cursor.at("_") and cursor.ahead().text in ("=", ",")):
        results = _parse_results(cursor)
        return _parse_after_results(cursor, start, results)
    if cursor.token.kind != "name":
        raise cursor.fail("a statement")
    return _parse_word(cursor, start)


def _parse_results(cursor: Cursor) -> Results:
    results: list[Value | None] = []
    while True:
        results.append(None if cursor.accept("_") else parse_definition(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("=")
    return tuple(results)


def _known(cursor: Cursor, results: Results) -> tuple[Value, ...]:
    known = tuple(value for value in results if value is not None)
    if len(known) != len(results):
        raise cursor.fail("a call or a run, of which alone a result may be dropped")
    return known


def _parse_after_results(cursor: Cursor, start: int, results: Results) -> Statement:
    if cursor.ahead().text == "." and cursor.token.kind in ("name", "string"):
        return parse_call(cursor, start, results)
    if cursor.at("run"):
        return parse_run(cursor, start, results)
    if cursor.at("loop"):
        return _parse_loop(cursor, start, _known(cursor, results))
    if cursor.at("when"):
        return _parse_when(cursor, start, _known(cursor, results))
    known = _known(cursor, results)
    if len(known) != 1:
        raise cursor.fail("a call, a run, a loop or a choice, which alone have several results")
    if cursor.accept("pull"):
        stream = cursor.name()
        or_none = cursor.accept("or")
        if or_none:
            cursor.expect("none")
        span = cursor.span(start)
        return Pull(stream=stream, result=known[0], or_none=or_none, span=span)
    value = parse_expr(cursor)
    return Assign(result=known[0], value=value, span=cursor.span(start))


def _parse_word(cursor: Cursor, start: int) -> Statement:
    match cursor.token.text:
        case "run":
            return parse_run(cursor, start, ())
        case "loop":
            return _parse_loop(cursor, start, ())
        case "when":
            return _parse_when(cursor, start, ())
        case "set":
            cursor.take()
            result = parse_definition(cursor)
            cursor.expect("=")
            value = parse_expr(cursor)
            return SetRegister(result=result, value=value, span=cursor.span(start))
        case "send":
            cursor.take()
            stream = cursor.name()
            cursor.expect("<-")
            values = parse_list(cursor)
            condition = _parse_if(cursor)
            span = cursor.span(start)
            return Send(stream=stream, values=values, condition=condition, span=span)
        case "emit":
            cursor.take()
            output = cursor.name()
            cursor.expect("<-")
            value = parse_expr(cursor)
            condition = _parse_if(cursor)
            span = cursor.span(start)
            return Emit(output=output, value=value, condition=condition, span=span)
        case "fork":
            return _parse_fork(cursor, start)
        case "release":
            cursor.take()
            node, context = parse_dotted(cursor)
            index = parse_index(cursor)
            return Release(node=node, context=context, index=index, span=cursor.span(start))
        case "mark":
            cursor.take()
            stream, mark = parse_dotted(cursor)
            return MarkStream(stream=stream, mark=mark, span=cursor.span(start))
        case "parallel":
            return _parse_parallel(cursor, start)
        case "each":
            return _parse_each(cursor, start)
        case "for":
            return _parse_for(cursor, start)
        case "match":
            return _parse_match(cursor, start)
        case _:
            raise cursor.fail("a statement")


def _parse_if(cursor: Cursor) -> Expr | None:
    return parse_expr(cursor) if cursor.accept("if") else None


def _parse_loop(cursor: Cursor, start: int, results: tuple[Value, ...]) -> Loop:
    cursor.expect("loop")
    if not (cursor.at("times") or cursor.at("max")):
        raise cursor.fail("`times` or `max`")
    kind = cursor.take().text
    bound = parse_expr(cursor)
    index = cursor.name("the name of the index") if cursor.accept("index") else None
    carries: list[Carry] = []
    if cursor.accept("carry"):
        cursor.expect("(")
        while not cursor.accept(")"):
            value = parse_definition(cursor)
            cursor.expect("=")
            carries.append(Carry(value=value, initial=parse_expr(cursor)))
            if not cursor.at(")"):
                cursor.expect(",")
    collects: list[Collect] = []
    if cursor.accept("collect"):
        cursor.expect("(")
        while not cursor.accept(")"):
            result = parse_definition(cursor)
            cursor.expect("<-")
            collects.append(Collect(result=result, value=parse_expr(cursor)))
            if not cursor.at(")"):
                cursor.expect(",")
    condition = parse_expr(cursor) if cursor.accept("while") else None
    until = parse_expr(cursor) if cursor.accept("until") else None
    site = cursor.kind("site", "a site such as `#walk/0`")
    span = cursor.span(start)
    cursor.expect("{")
    block = parse_block(cursor)
    return Loop(
        kind="times" if kind == "times" else "max",
        bound=bound,
        index=index,
        carries=tuple(carries),
        collects=tuple(collects),
        condition=condition,
        until=until,
        body=block.body,
        yields=block.values,
        results=results,
        site=site,
        span=span,
    )


def _parse_when(cursor: Cursor, start: int, results: tuple[Value, ...]) -> When:
    cursor.expect("when")
    condition = parse_expr(cursor)
    span = cursor.span(start)
    cursor.expect("{")
    then = parse_block(cursor)
    otherwise = Block(())
    if cursor.accept("else"):
        cursor.expect("{")
        otherwise = parse_block(cursor)
    return When(
        condition=condition,
        then=then.body,
        otherwise=otherwise.body,
        then_yields=then.values,
        otherwise_yields=otherwise.values,
        results=results,
        span=span,
    )


def _parse_fork(cursor: Cursor, start: int) -> Fork:
    cursor.expect("fork")
    node, target = parse_dotted(cursor)
    target_index = parse_index(cursor)
    cursor.expect("=")
    other, source = parse_dotted(cursor)
    if other != node:
        raise cursor.fail(f"a context of `{node}` as the source of the fork")
    source_index = parse_index(cursor)
    condition = _parse_if(cursor)
    return Fork(
        node=node,
        target=target,
        source=source,
        target_index=target_index,
        source_index=source_index,
        condition=condition,
        span=cursor.span(start),
    )


def _parse_parallel(cursor: Cursor, start: int) -> Parallel:
    cursor.expect("parallel")
    span = cursor.span(start)
    cursor.expect("{")
    branches: list[tuple[Statement, ...]] = []
    while not cursor.accept("}"):
        cursor.expect("branch")
        cursor.expect("{")
        branches.append(parse_block(cursor).body)
    return Parallel(branches=tuple(branches), span=span)


def _parse_each(cursor: Cursor, start: int) -> Each:
    cursor.expect("each")
    streams = [cursor.name("the name of a stream")]
    while cursor.accept(","):
        streams.append(cursor.name("the name of a stream"))
    cursor.expect("as")
    names = [parse_definition(cursor)]
    while cursor.accept(","):
        names.append(parse_definition(cursor))
    last = cursor.kind("value", "a value such as `%last`") if cursor.accept("last") else None
    policy: Policy | None = parse_policy(cursor) if cursor.accept("chunk") else None
    until = cursor.name("the name of a mark") if cursor.accept("until") else None
    site = cursor.kind("site", "a site such as `#machine.state/0`")
    span = cursor.span(start)
    cursor.expect("{")
    return Each(
        streams=tuple(streams),
        names=tuple(names),
        last=last,
        policy=policy,
        until=until,
        body=parse_block(cursor).body,
        site=site,
        span=span,
    )


def _parse_for(cursor: Cursor, start: int) -> ForParts:
    cursor.expect("for")
    part = cursor.name("the name of a part")
    cursor.expect("in")
    over = cursor.name("the name of an input")
    span = cursor.span(start)
    cursor.expect("{")
    return ForParts(part=part, over=over, body=parse_block(cursor).body, span=span)


def _parse_match(cursor: Cursor, start: int) -> Match:
    cursor.expect("match")
    part = cursor.name("the name of a part")
    span = cursor.span(start)
    cursor.expect("{")
    arms: list[Arm] = []
    while not cursor.accept("}"):
        arm_start = cursor.token.start
        kind = cursor.name("a kind of media")
        value = parse_definition(cursor)
        arm_span = cursor.span(arm_start)
        cursor.expect("{")
        body = parse_block(cursor).body
        arms.append(Arm(kind=kind, value=value, body=body, span=arm_span))
    return Match(part=part, arms=tuple(arms), span=span)

"""Parse nodes with their ops, contexts and samplers."""

from typing import Literal, cast

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Context, Engine, Mask, Node, Op, Parameter, Result, Weights
from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.parse_exprs import parse_dim, parse_expr, parse_scalar, parse_type

Settings = tuple[tuple[str, Expr], ...]


def parse_aliases(cursor: Cursor) -> tuple[str, ...]:
    """`as "LLM", "llm"`, or nothing."""
    aliases: list[str] = []
    if cursor.accept("as"):
        aliases.append(cursor.string())
        while cursor.accept(","):
            aliases.append(cursor.string())
    return tuple(aliases)


def parse_names(cursor: Cursor) -> tuple[str, ...]:
    """One or more names with commas between."""
    names = [cursor.name()]
    while cursor.accept(","):
        names.append(cursor.name())
    return tuple(names)


def parse_results(cursor: Cursor) -> tuple[Result, ...]:
    """`-> (token: i64 if %last)`, or nothing."""
    results: list[Result] = []
    if cursor.accept("->"):
        cursor.expect("(")
        while not cursor.accept(")"):
            name = cursor.name("the name of a result")
            cursor.expect(":")
            type_ = parse_type(cursor)
            condition = parse_expr(cursor) if cursor.accept("if") else None
            results.append(Result(name=name, type=type_, condition=condition))
            if not cursor.at(")"):
                cursor.expect(",")
    return tuple(results)


def parse_node(cursor: Cursor, start: int) -> Node:
    """After `node`."""
    name = cursor.name("the name of a node")
    cursor.expect(":")
    engine = cursor.name("an engine")
    if engine not in ("kv_cache", "stateless", "host"):
        raise cursor.fail("an engine before it")
    aliases = parse_aliases(cursor)
    span = cursor.span(start)
    cursor.expect("{")
    cursor.expect("impl")
    impl = cursor.string()
    weights = _parse_weights(cursor)
    shards = parse_names(cursor) if cursor.accept("shards") else ()
    kv = _parse_settings(cursor) if cursor.accept("kv") else ()
    contexts: list[Context] = []
    samplers: list[tuple[str, Settings]] = []
    ops: list[Op] = []
    while not cursor.accept("}"):
        item_start = cursor.token.start
        if cursor.accept("context"):
            contexts.append(_parse_context(cursor))
        elif cursor.accept("sample"):
            sampler = cursor.name("the name of a sampler")
            samplers.append((sampler, _parse_settings(cursor)))
        elif cursor.accept("op"):
            ops.append(_parse_op(cursor, item_start))
        else:
            raise cursor.fail("`context`, `sample`, `op` or `}`")
    return Node(
        name=name,
        engine=cast(Engine, engine),
        impl=impl,
        ops=tuple(ops),
        weights=weights,
        shards=shards,
        kv=kv,
        contexts=tuple(contexts),
        samplers=tuple(samplers),
        aliases=aliases,
        span=span,
    )


def _parse_weights(cursor: Cursor) -> Weights | None:
    if not cursor.accept("weights"):
        return None
    source = cursor.string()
    under = cursor.string() if cursor.accept("under") else ""
    size = cursor.integer() if cursor.accept("bytes") else None
    return Weights(source=source, under=under, size_bytes=size)


def _parse_settings(cursor: Cursor) -> Settings:
    settings: list[tuple[str, Expr]] = []
    cursor.expect("{")
    while not cursor.accept("}"):
        name = cursor.name("the name of a setting")
        cursor.expect("=")
        settings.append((name, parse_expr(cursor)))
        if not cursor.at("}"):
            cursor.expect(",")
    return tuple(settings)


def _parse_context(cursor: Cursor) -> Context:
    name = cursor.name("the name of a context")
    count = parse_expr(cursor) if cursor.accept("count") else None
    cross = cursor.integer() if cursor.accept("cross") else None
    return Context(name=name, count=count, cross=cross, aliases=parse_aliases(cursor))


def _parse_op(cursor: Cursor, start: int) -> Op:
    name = cursor.name("the name of an op")
    cursor.expect("(")
    parameters: list[Parameter] = []
    while not cursor.accept(")"):
        parameter = cursor.name("the name of a parameter")
        cursor.expect(":")
        parameters.append(Parameter(name=parameter, type=parse_type(cursor)))
        if not cursor.at(")"):
            cursor.expect(",")
    results = parse_results(cursor)
    mask = _parse_mask(cursor) if cursor.accept("attends") else None
    writes = parse_names(cursor) if cursor.accept("writes") else ()
    reads = parse_names(cursor) if cursor.accept("reads") else ()
    advance = parse_expr(cursor) if cursor.accept("advance") else None
    receptive = cursor.integer() if cursor.accept("receptive") else None
    sampler = cursor.name("the name of a sampler") if cursor.accept("sampler") else None
    stateful = cursor.accept("stateful")
    cost: list[tuple[str, float]] = []
    if cursor.accept("cost"):
        cursor.expect("{")
        while not cursor.accept("}"):
            setting = cursor.name("the name of a cost")
            cursor.expect("=")
            cost.append((setting, cast(float, parse_scalar(cursor))))
            if not cursor.at("}"):
                cursor.expect(",")
    return Op(
        name=name,
        parameters=tuple(parameters),
        results=results,
        mask=mask,
        writes=writes,
        reads=reads,
        advance=advance,
        receptive=receptive,
        sampler=sampler,
        stateful=stateful,
        cost=tuple(cost),
        span=cursor.span(start),
    )


def _parse_mask(cursor: Cursor) -> Mask:
    kind = cursor.name("a mask")
    if kind not in ("causal", "full", "prefix", "frames"):
        raise cursor.fail("a mask before it")
    size = None
    if cursor.accept("("):
        size = parse_dim(cursor)
        cursor.expect(")")
    return Mask(kind=cast(Literal["causal", "full", "prefix", "frames"], kind), size=size)

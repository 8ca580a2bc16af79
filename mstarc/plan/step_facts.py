"""What a step sends, emits, reads and needs, from its actions."""

from collections.abc import Iterable, Set
from dataclasses import replace

from mstarc.ir.decisions import Region
from mstarc.ir.exprs import Const, Expr, Local, LoopIndex, PartAttribute, TableItem
from mstarc.ir.text import format_dim
from mstarc.ir.types import DimConst, TensorType
from mstarc.ir.walking import locals_of, subexpressions
from mstarc.plan.actions import (
    Action,
    CallOp,
    ClearContext,
    EmitValue,
    ForkContext,
    Move,
    Read,
    Repeat,
    SendItem,
    definitions_of,
    expressions_of,
    indices_of,
    known_of,
)
from mstarc.plan.plan import Grow, Prepared
from mstarc.plan.signatures import Signatures, has_free_dim, has_unknown_dim


def defined_in(actions: tuple[Action, ...]) -> list[str]:
    """Variables that actions set, repeated bodies included, each once."""
    found: list[str] = []
    for action in actions:
        if isinstance(action, Repeat):
            found += defined_in(action.body)
        found += definitions_of(action)
    return list(dict.fromkeys(found))


def used_in(actions: tuple[Action, ...]) -> list[str]:
    """Variables whose values actions read, repeated bodies included, each once."""
    found: list[str] = []
    for action in actions:
        for expr in expressions_of(action):
            found += locals_of(expr)
        if isinstance(action, CallOp):
            found += [there for _, there in action.there]
        if isinstance(action, Repeat):
            found += used_in(action.body)
    return list(dict.fromkeys(found))


def passes_of(exprs: Iterable[Expr], loops: Set[str]) -> tuple[str, ...]:
    """Loops whose pass number expressions ask for, each once."""
    found: list[str] = []
    for expr in exprs:
        for part in subexpressions(expr):
            match part:
                case LoopIndex(name) | PartAttribute(name, _) if name in loops:
                    found.append(name)
                case _:
                    pass
    return tuple(dict.fromkeys(found))


def passes_in(actions: tuple[Action, ...], loops: Set[str]) -> tuple[str, ...]:
    """Loops whose pass number actions need, each once."""
    exprs = (expr for action in actions for expr in (*known_of(action), *indices_of(action)))
    return passes_of(exprs, loops)


def tables_in(actions: tuple[Action, ...]) -> tuple[str, ...]:
    """Tables that actions look up, each once."""
    exprs = [part for a in actions for expr in known_of(a) for part in subexpressions(expr)]
    return tuple(dict.fromkeys(part.table for part in exprs if isinstance(part, TableItem)))


def sends_of(actions: tuple[Action, ...]) -> tuple[tuple[str, int], ...]:
    """Each stream with the most items that a row sends in one run of the actions."""
    counts: dict[str, int] = {}
    for action in actions:
        if isinstance(action, SendItem):
            counts[action.stream] = counts.get(action.stream, 0) + action.items
        elif isinstance(action, Repeat):
            for stream, count in sends_of(action.body):
                counts[stream] = counts.get(stream, 0) + count * action.passes
    return tuple(counts.items())


def emits_of(actions: tuple[Action, ...]) -> tuple[str, ...]:
    """Outputs that actions emit to, each once."""
    found: list[str] = []
    for action in actions:
        if isinstance(action, EmitValue):
            found.append(action.output)
        elif isinstance(action, Repeat):
            found += emits_of(action.body)
    return tuple(dict.fromkeys(found))


def packed_of(actions: tuple[Action, ...], signatures: Signatures) -> tuple[str, ...]:
    """Variables that a step handles packed: free dims of `kv_cache` ops, and copies of them."""
    packed: dict[str, bool] = {}

    def visit(body: tuple[Action, ...]) -> None:
        for action in body:
            match action:
                case CallOp():
                    for index, argument in enumerate(action.arguments):
                        if isinstance(argument, Local):
                            layout = signatures.parameter_layout(action, index)
                            packed.setdefault(argument.name, layout == "packed")
                    for index, result in enumerate(action.results):
                        if result is not None:
                            packed[result] = signatures.result_layout(action, index) == "packed"
                case Move(pairs=pairs):
                    for name, value in pairs:
                        if isinstance(value, Local):
                            packed[name] = packed.get(value.name, False)
                case Repeat():
                    visit(action.body)
                case _:
                    pass

    visit(actions)
    return tuple(name for name, is_packed in packed.items() if is_packed)


def chunks_of(actions: tuple[Action, ...]) -> tuple[str, ...]:
    """Variables that hold the chunks which actions read."""
    return tuple(action.result for action in actions if isinstance(action, Read))


def nodes_of(actions: tuple[Action, ...]) -> tuple[str, ...]:
    """The nodes that actions call, or whose contexts they fork or empty, each once."""
    found: list[str] = []
    for action in actions:
        if isinstance(action, CallOp | ForkContext | ClearContext):
            found.append(action.node)
        elif isinstance(action, Repeat):
            found += nodes_of(action.body)
    return tuple(dict.fromkeys(found))


def prepares_of(actions: tuple[Action, ...], signatures: Signatures) -> tuple[Prepared, ...]:
    """What becomes of contexts, in order: forks, releases, rows that calls write or attend."""
    lengths: dict[str, Grow | None] = {}
    chunks = {action.result: action.stream for action in actions if isinstance(action, Read)}
    found: list[Prepared] = []

    def source(value: Expr) -> tuple[int, str | None]:
        match value:
            case Const(tuple() as items):
                return len(items), None
            case Local(name):
                known = lengths.get(name)
                if known is not None:
                    return known.rows, known.of
                return 0, chunks.get(name, name)
            case _:
                return 1, None

    def visit(body: tuple[Action, ...], passes: int) -> None:
        for action in body:
            if isinstance(action, Repeat):
                visit(action.body, passes * action.passes)
            if isinstance(action, ForkContext | ClearContext):
                found.append(action)
            if not isinstance(action, CallOp) or signatures.nodes[action.node].engine == "host":
                continue
            op = signatures.op(action)
            free = [
                (argument, each)
                for parameter, argument, each in zip(
                    op.parameters,
                    action.arguments,
                    action.over or (False,) * len(action.arguments),
                    strict=True,
                )
                if has_free_dim(parameter.type)
            ]
            rows, of = source(free[0][0]) if free else (1, None)
            axis = int(bool(free) and free[0][1])
            for result in action.results:
                if result is not None:
                    length = Grow(node=action.node, context="", rows=rows, of=of)
                    lengths[result] = length if free else None
            advance = advance_of(action)
            count: str | Expr | None = None
            if signatures.fixed_rows(action) is not None:
                rows, advance = signatures.fixed_rows(action) or 1, None
            elif not free and advance is not None and not isinstance(advance, int):
                count, advance = advance, None
            for context, kept in contexts_of(action, signatures):
                found.append(
                    Grow(
                        node=action.node,
                        context=context,
                        # What does not stay makes room for the next pass.
                        rows=rows * passes if kept else rows,
                        of=of,
                        axis=axis,
                        count=count,
                        kept=kept,
                        advance=advance,
                        index=action.index,
                    )
                )

    visit(actions, 1)
    return _added_up(found)


def contexts_of(call: CallOp, signatures: Signatures) -> tuple[tuple[str, bool], ...]:
    """The contexts that a call's rows stand in, and whether they stay there."""
    node = signatures.nodes[call.node]
    op = signatures.op(call)
    cross = {context.name for context in node.contexts if context.cross is not None}
    first = node.contexts[0].name if node.contexts else None
    kept = bool(op.writes)
    names = [name for name in (op.writes if kept else op.reads) if name not in cross]
    if call.contexts:
        return tuple((context, kept) for context in call.contexts)
    return tuple((call.context or name if name == first else name, kept) for name in names)


def advance_of(call: CallOp) -> int | str | Expr | None:
    """By how much a call moves positions, where not by its rows."""
    match call.advance:
        case Const(int(value)):
            return value
        case Local(name):
            return name
        case advance:
            return advance


def _added_up(found: list[Prepared]) -> tuple[Prepared, ...]:
    added: list[Prepared] = []
    for item in found:
        last = added[-1] if added else None
        if (
            isinstance(last, Grow)
            and isinstance(item, Grow)
            and last.of is None
            and last.kept
            and replace(last, rows=item.rows) == item
        ):
            added[-1] = replace(last, rows=last.rows + item.rows)
        else:
            added.append(item)
    return tuple(added)


def why_eager(calls: list[CallOp], region: Region | None, signatures: Signatures) -> str:
    """Why no region holds a step's calls, short; empty where one does, or where it has none."""
    if region is not None or not calls:
        return ""
    for call in calls:
        op = signatures.op(call)
        if signatures.rows(call) == "packed" and signatures.fixed_rows(call):
            return f"eager: {signatures.fixed_rows(call)} rows"
        sizes = [(p.name, p.type) for p in op.parameters] + [(r.name, r.type) for r in op.results]
        for name, type_ in sizes:
            if has_unknown_dim(type_):
                return f"eager: size of {name} unknown"
            if isinstance(type_, TensorType) and not type_.is_static:
                free = [format_dim(dim) for dim in type_.dims if not isinstance(dim, DimConst)]
                return f"eager: free dim {free[0]}"
    return "eager"

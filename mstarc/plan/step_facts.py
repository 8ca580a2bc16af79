"""What a step sends, emits, reads and needs, from its actions."""

from collections.abc import Iterable, Set

from mstarc.ir.exprs import Const, Expr, Local, LoopIndex, PartAttribute, TableItem
from mstarc.ir.graph import Region
from mstarc.ir.text import format_dim
from mstarc.ir.types import DimConst, TensorType
from mstarc.ir.walking import locals_of, subexpressions
from mstarc.plan.actions import (
    Action,
    CallOp,
    EmitValue,
    Move,
    Read,
    Repeat,
    SendItem,
    definitions_of,
    expressions_of,
    known_of,
)
from mstarc.plan.plan import Grow
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
    return passes_of((expr for action in actions for expr in known_of(action)), loops)


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


def grows_of(actions: tuple[Action, ...], signatures: Signatures) -> tuple[Grow, ...]:
    """The rows that calls write to contexts, in order; what is known adds up."""
    lengths: dict[str, Grow | None] = {}
    chunks = {action.result: action.stream for action in actions if isinstance(action, Read)}
    grows: list[Grow] = []

    def source(node: str, context: str, value: Expr) -> Grow:
        match value:
            case Const(tuple() as items):
                return Grow(node=node, context=context, rows=len(items))
            case Local(name):
                known = lengths.get(name)
                if known is not None:
                    return Grow(node=node, context=context, rows=known.rows, of=known.of)
                return Grow(node=node, context=context, rows=0, of=chunks.get(name, name))
            case _:
                return Grow(node=node, context=context, rows=1)

    def visit(body: tuple[Action, ...], passes: int) -> None:
        for action in body:
            if isinstance(action, Repeat):
                visit(action.body, passes * action.passes)
            if not isinstance(action, CallOp) or signatures.nodes[action.node].engine == "host":
                continue
            op = signatures.op(action)
            free = [
                argument
                for parameter, argument in zip(op.parameters, action.arguments, strict=True)
                if has_free_dim(parameter.type)
            ]
            for result in action.results:
                if result is not None:
                    lengths[result] = source("", "", free[0]) if free else None
            cross = {c.name for c in signatures.nodes[action.node].contexts if c.cross is not None}
            for context in written_contexts(action, signatures):
                if context in cross:
                    continue
                rows = (
                    source(action.node, context, free[0])
                    if free
                    else Grow(node=action.node, context=context, rows=1)
                )
                grows.append(
                    Grow(node=rows.node, context=context, rows=rows.rows * passes, of=rows.of)
                )

    visit(actions, 1)
    return _added_up(grows)


def written_contexts(call: CallOp, signatures: Signatures) -> tuple[str, ...]:
    """The contexts that a call writes."""
    return signatures.op(call).writes


def _added_up(grows: list[Grow]) -> tuple[Grow, ...]:
    added: list[Grow] = []
    for grow in grows:
        last = added[-1] if added else None
        same = last is not None and (last.node, last.context) == (grow.node, grow.context)
        if last is not None and same and last.of is None and grow.of is None:
            added[-1] = Grow(node=grow.node, context=grow.context, rows=last.rows + grow.rows)
        else:
            added.append(grow)
    return tuple(added)


def why_eager(calls: list[CallOp], region: Region | None, signatures: Signatures) -> str:
    """Why no region holds a step's calls, short; empty where one does, or where it has none."""
    if region is not None or not calls:
        return ""
    for call in calls:
        op = signatures.op(call)
        sizes = [(p.name, p.type) for p in op.parameters] + [(r.name, r.type) for r in op.results]
        for name, type_ in sizes:
            if has_unknown_dim(type_):
                return f"eager: size of {name} unknown"
            if isinstance(type_, TensorType) and not type_.is_static:
                free = [format_dim(dim) for dim in type_.dims if not isinstance(dim, DimConst)]
                return f"eager: free dim {free[0]}"
    return "eager"

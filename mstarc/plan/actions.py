"""What a step does, in order. Variables are a machine's: they may be set again.

A walk's values have become variables by now, and expressions name them with `Local`. `text` is the
statement in the spec's own words, for people.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from mstarc.ir.exprs import Expr, Local
from mstarc.ir.walking import locals_of, map_expr


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOp:
    """An op of a node, on a context other than its first where one is named, or on several at once:
    then `results` are those of one of `contexts` after another.

    A result that nobody takes is None. `index` picks one context of an array, and is computed at
    admission; a call on a whole array has `over`, which arguments have an entry a context. `there`
    has the variables that say of arguments which may be none whether they are there. `advance` is
    by how much positions move, where the op says it.
    """

    node: str
    op: str
    arguments: tuple[Expr, ...]
    results: tuple[str | None, ...]
    context: str | None = None
    contexts: tuple[str, ...] = ()
    index: Expr | None = None
    over: tuple[bool, ...] | None = None
    there: tuple[tuple[str, str], ...] = ()
    advance: Expr | None = None
    site: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Set several variables at once: all values are read before the first is set."""

    pairs: tuple[tuple[str, Expr], ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Take the chunk that made the step ready."""

    stream: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullItem:
    """Take the item that made the step ready, or none behind the last one.

    `there` says whether it is one. `sure`: a stream that has closed before ends the request with an
    error, and there is no such variable.
    """

    stream: str
    result: str
    there: str | None = None
    sure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendItem:
    """Send `items` items a row. `masked`: where the loop goes on; `when`: if admission says so.

    A number is sent as often as `alike` has items, or once.
    """

    stream: str
    value: Expr
    items: int
    ends: Expr | None
    masked: bool
    when: Expr | None
    text: str
    alike: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitValue:
    """Hand a value to the client."""

    output: str
    value: Expr
    masked: bool
    when: Expr | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """Say on the device whether the loop goes on. `condition` None: only its bound ends it."""

    condition: Expr | None
    negate: bool
    used: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Empty a collector before its loop."""

    collector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """One more row for a collector."""

    collector: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """One pass's part of what a repeated body collects into `result`."""

    result: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """`passes` passes inside one step. `collects` are the stacks of what `Keep`s in it keep."""

    index: str | None
    passes: int
    passes_name: str | None
    body: tuple["Action", ...]
    collects: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkContext:
    """In front of the step: `target` holds what `source` holds, and shares its pages."""

    node: str
    source: str
    target: str
    source_index: Expr | None = None
    target_index: Expr | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearContext:
    """In front of the step: the context is empty."""

    node: str
    context: str
    index: Expr | None = None
    text: str


Action = (
    CallOp
    | Move
    | Read
    | PullItem
    | SendItem
    | EmitValue
    | Test
    | Reset
    | Gather
    | Keep
    | Repeat
    | ForkContext
    | ClearContext
)


def expressions_of(action: Action) -> tuple[Expr, ...]:
    """The expressions that an action itself evaluates, those of a repeated body left out."""
    match action:
        case CallOp(arguments=arguments):
            return arguments
        case Move(pairs=pairs):
            return tuple(value for _, value in pairs)
        case SendItem(value=value, ends=ends, alike=alike):
            return tuple(expr for expr in (value, ends, alike) if expr is not None)
        case EmitValue(value=value) | Gather(value=value) | Keep(value=value):
            return (value,)
        case Test(condition=condition):
            return () if condition is None else (condition,)
        case Read() | PullItem() | Reset() | Repeat() | ForkContext() | ClearContext():
            return ()
        case _:
            assert_never(action)


def known_of(action: Action) -> tuple[Expr, ...]:
    """The expressions of an action and of a repeated body, and the conditions of its effects."""
    exprs = expressions_of(action)
    if isinstance(action, SendItem | EmitValue) and action.when is not None:
        exprs += (action.when,)
    if isinstance(action, Repeat):
        exprs += tuple(expr for inner in action.body for expr in known_of(inner))
    return exprs


def indices_of(action: Action) -> tuple[Expr, ...]:
    """What the host looks up to know which contexts of arrays are meant."""
    found: tuple[Expr | None, ...]
    match action:
        case CallOp(index=index, advance=advance):
            found = (index, None if isinstance(advance, Local) else advance)
        case ClearContext(index=index):
            found = (index,)
        case ForkContext(source_index=source, target_index=target):
            found = (source, target)
        case _:
            found = ()
    return tuple(index for index in found if index is not None)


def uses_of(action: Action) -> tuple[str, ...]:
    """Variables that an action reads, in order; a repeated body's are not among them."""
    names = [name for expr in expressions_of(action) for name in locals_of(expr)]
    if isinstance(action, Gather):
        names.append(action.collector)
    if isinstance(action, CallOp):
        names += [there for _, there in action.there]
    return tuple(dict.fromkeys(names))


def definitions_of(action: Action) -> tuple[str, ...]:
    """Variables that an action sets; of a repeated body, only what it collects."""
    match action:
        case CallOp(results=results):
            return tuple(name for name in results if name is not None)
        case Move(pairs=pairs):
            return tuple(name for name, _ in pairs)
        case Read(result=result):
            return (result,)
        case PullItem(result=result, there=there):
            return (result,) if there is None else (result, there)
        case Reset(collector=collector):
            return (collector,)
        case Repeat(collects=collects):
            return collects
        case SendItem() | EmitValue() | Test() | Gather() | Keep():
            return ()
        case ForkContext() | ClearContext():
            return ()
        case _:
            assert_never(action)


def substitute(expr: Expr, values: dict[str, Expr]) -> Expr:
    """The expression with each variable in `values` replaced."""
    return map_expr(expr, lambda e: values.get(e.name, e) if isinstance(e, Local) else e)


def rename(expr: Expr, names: dict[str, str]) -> Expr:
    """The expression with variables renamed; a name that is not in `names` stays."""
    return map_expr(expr, lambda e: Local(names.get(e.name, e.name)) if isinstance(e, Local) else e)


def map_action(action: Action, names: dict[str, str]) -> Action:
    """The action with its variables renamed, a repeated body included."""

    def new(name: str) -> str:
        return names.get(name, name)

    match action:
        case CallOp():
            return replace(
                action,
                arguments=tuple(rename(a, names) for a in action.arguments),
                results=tuple(None if r is None else new(r) for r in action.results),
                there=tuple((new(name), new(there)) for name, there in action.there),
                advance=None if action.advance is None else rename(action.advance, names),
            )
        case Move():
            pairs = tuple((new(n), rename(v, names)) for n, v in action.pairs)
            return replace(action, pairs=tuple(p for p in pairs if p[1] != Local(p[0])))
        case Read():
            return replace(action, result=new(action.result))
        case PullItem(there=there):
            there = None if there is None else new(there)
            return replace(action, result=new(action.result), there=there)
        case SendItem():
            ends = None if action.ends is None else rename(action.ends, names)
            alike = None if action.alike is None else rename(action.alike, names)
            return replace(action, value=rename(action.value, names), ends=ends, alike=alike)
        case EmitValue():
            return replace(action, value=rename(action.value, names))
        case Test():
            condition = None if action.condition is None else rename(action.condition, names)
            return replace(action, condition=condition)
        case Reset():
            return replace(action, collector=new(action.collector))
        case Gather():
            value = rename(action.value, names)
            return replace(action, collector=new(action.collector), value=value)
        case Keep():
            return replace(action, result=new(action.result), value=rename(action.value, names))
        case Repeat():
            return replace(
                action,
                body=without_empty(tuple(map_action(a, names) for a in action.body)),
                collects=tuple(map(new, action.collects)),
            )
        case ForkContext() | ClearContext():
            return action
        case _:
            assert_never(action)


def without_empty(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The actions that do something: moves that renaming has emptied are gone."""
    return tuple(a for a in actions if not (isinstance(a, Move) and not a.pairs))

"""Streams: items, chunk policies, tails, and the machines at both ends."""

from typing import get_args

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.names import Symbol
from mstarc.names.scope import report_unknown
from mstarc.syntax import ast
from mstarc.typecheck.constants import ConfigValue, evaluate
from mstarc.typecheck.declared import declared_type
from mstarc.typecheck.links import Links, Use, uses_of
from mstarc.typecheck.policies import can_leave_items, check_policy
from mstarc.typecheck.state import State
from mstarc.typecheck.typed import EmptyKind, StreamInfo, TailKind
from mstarc.typecheck.types import ERROR, OptionalType, TensorType, TupleType, Type

TAILS: tuple[TailKind, ...] = get_args(TailKind)
EMPTIES: tuple[EmptyKind, ...] = get_args(EmptyKind)


def check_streams(links: Links, state: State) -> None:
    """Check every stream and note what it is; one whose policy is wrong is left out."""
    for symbol in state.resolved.symbols.streams.values():
        decl = symbol.of(ast.StreamDecl)
        producer = _end(symbol, links, state, writes=True)
        consumer = _end(symbol, links, state, writes=False)
        item = _item(decl, state)
        marks = tuple(mark.text for mark in decl.marks)
        policy = check_policy(decl.policy, item, marks, state)
        tail, pad = _tail(decl, item, state)
        empty = _empty(decl, state)
        if producer and producer == consumer:
            state.sink.report(
                Diagnostic(
                    code="MS0410",
                    message=f"machine `{producer}` reads `{symbol.name}`, to which it sends",
                    primary=Label(span=decl.name.span, text="both ends are in one machine"),
                    notes=("while it waits for a chunk it sends nothing: it would wait for ever",),
                    helps=("read the stream in another machine",),
                )
            )
        if policy is None:
            continue
        if tail is None and decl.tail is None and can_leave_items(policy):
            state.sink.report(
                Diagnostic(
                    code="MS0407",
                    message=f"what becomes of the last items of `{symbol.name}` is not said",
                    primary=Label(
                        span=decl.policy.span, text="may leave items when the stream closes"
                    ),
                    helps=(
                        "`tail drop` drops them, `tail short` hands over a smaller chunk, "
                        "`tail pad(value)` fills it up",
                    ),
                )
            )
        state.streams[symbol.name] = StreamInfo(
            name=symbol.name,
            item=item,
            policy=policy,
            tail=tail,
            pad=pad,
            empty=empty,
            marks=marks,
            producer=producer,
            consumer=consumer,
            decl=decl,
        )


def has_unknown_names(sink: DiagnosticSink) -> bool:
    """Whether some name of the spec means nothing."""
    return any(found.code.startswith("MS02") for found in sink.diagnostics)


def _item(decl: ast.StreamDecl, state: State) -> Type:
    item = declared_type(decl.item, 0, state, tensors=True)
    entries = [entry for _, entry in item.fields] if isinstance(item, TupleType) else [item]
    for entry in entries:
        if entry != ERROR and not isinstance(entry, TensorType):
            what = "an item that may be none" if isinstance(entry, OptionalType) else f"`{entry}`"
            state.sink.report(
                Diagnostic(
                    code="MS0301",
                    message=f"a stream cannot carry {what}",
                    primary=Label(span=decl.item.span, text="items are tensors"),
                    helps=("a number is a tensor without dims: `i64`, `f32`, `bool`",),
                )
            )
            return ERROR
        if isinstance(entry, TensorType) and any(
            var.origin == "unknown" for dim in entry.dims for var in dim.variables()
        ):
            state.error(
                "MS0323",
                decl.item.span,
                f"the items of `{decl.name.text}` are not of one size",
                "a ring holds items of one size: `?` is none",
            )
            return ERROR
    return item


def _tail(
    decl: ast.StreamDecl, item: Type, state: State
) -> tuple[TailKind | None, ConfigValue | None]:
    if decl.tail is None:
        return None, None
    kind = next((tail for tail in TAILS if tail == decl.tail.kind.text), None)
    if kind is None:
        report_unknown(decl.tail.kind, TAILS, "MS0218", "kind of tail", state.sink)
        return "drop", None
    if (kind == "pad") != (decl.tail.value is not None):
        state.error(
            "MS0407",
            decl.tail.span,
            f"`tail {kind}` {'needs a' if kind == 'pad' else 'has no'} value",
            "as in `tail pad(0)`" if kind == "pad" else f"`tail {kind}` is enough",
        )
        return kind, 0
    if decl.tail.value is None:
        return kind, None
    value = evaluate(decl.tail.value, state.config, state.resolved, state.sink)
    whole = isinstance(item, TensorType) and item.dtype in ("i64", "i32", "u8")
    fits = value == "last" or (
        type(value) is int if whole else isinstance(value, int | float | bool)
    )
    if value is not None and not fits:
        state.error(
            "MS0407",
            decl.tail.value.span,
            f"`{value}` cannot fill up a chunk of `{decl.name.text}`",
            f'an item is `{item}`: a number of its kind, or `"last"`',
        )
    return kind, value


def _empty(decl: ast.StreamDecl, state: State) -> EmptyKind | None:
    if decl.empty is None:
        return None
    for empty in EMPTIES:
        if empty == decl.empty.kind.text:
            return empty
    report_unknown(decl.empty.kind, EMPTIES, "MS0218", "word after `empty`", state.sink)
    return None


def _end(symbol: Symbol, links: Links, state: State, *, writes: bool) -> str:
    """The machine at one end; an empty text where there is none, which is reported."""
    ends = uses_of(symbol, links.sends if writes else links.reads)
    if len(ends) == 1:
        return next(iter(ends))
    if not ends:
        if has_unknown_names(state.sink):
            return ""
        _report_no_end(symbol, state, writes=writes)
        return ""
    (first, first_uses), (second, second_uses), *_ = ends.items()
    verb = "send to" if writes else "read"
    diagnostic = Diagnostic(
        code="MS0406" if writes else "MS0405",
        message=f"machines `{first}` and `{second}` both {verb} the stream `{symbol.name}`",
        primary=Label(span=second_uses[0].span, text=_place(second, second_uses[0])),
        notes=(
            "the order of items from two machines would be a matter of timing"
            if writes
            else "each item goes to one reader; which of the two would be a matter of timing",
        ),
        helps=("give each of them a stream of its own",),
    )
    diagnostic = diagnostic.label(first_uses[0].span, _place(first, first_uses[0]))
    state.sink.report(diagnostic.label(symbol.declaration.span, "the stream"))
    return first


def _place(machine: str, use: Use) -> str:
    return f"in machine `{machine}`" + (f", which runs `{use.walk}`" if use.walk else "")


def _report_no_end(symbol: Symbol, state: State, *, writes: bool) -> None:
    idle = _idle_walks(symbol, state, writes=writes)
    verb = "sends to" if writes else "reads"
    diagnostic = Diagnostic(
        code="MS0404" if writes else "MS0408",
        message=f"no machine {verb} the stream `{symbol.name}`",
        primary=Label(
            span=symbol.declaration.span,
            text="nothing ever arrives" if writes else "its items go nowhere",
        ),
    )
    for walk in idle:
        diagnostic = diagnostic.label(walk.name.span, f"{verb} it, and no machine runs this walk")
    if not idle:
        name = symbol.name
        diagnostic = diagnostic.help(
            f"send to it in a walk: `send {name} <- …`"
            if writes
            else f"read it in a machine: `each {name} as chunk run …`"
        )
    state.sink.report(diagnostic)


def _idle_walks(symbol: Symbol, state: State, *, writes: bool) -> list[ast.WalkDecl]:
    found = []
    for walk in state.resolved.symbols.walks.values():
        decl = walk.of(ast.WalkDecl)
        for node in ast.descendants(decl.body):
            is_end = isinstance(node, ast.Send if writes else ast.Pull)
            if is_end and state.resolved.meaning(node.stream) is symbol:  # type: ignore[attr-defined]  # both have one
                found.append(decl)
                break
    return found

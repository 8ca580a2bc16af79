"""Cut sends, emits and marks, and what depends on conditions that are known at admission.

Before:  emit picture <- image if wants picture
After:   emit picture where option "draw.paint.emit_picture", which admission computes
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc.analysis.bounds import burst
from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    Field,
    Input,
    LetRef,
    Local,
    LoopIndex,
    Option,
    PartAttribute,
    Shape,
    Slice,
    TableItem,
    Unary,
)
from mstarc.ir.folding import fold
from mstarc.ir.graph import Call, Each, Emit, MarkStream, Program, Send, Stream
from mstarc.ir.types import DimConst, DType, OptionalType, TensorType, Type
from mstarc.ir.walking import all_statements, map_expr, subexpressions
from mstarc.plan.actions import EmitValue, SendItem, substitute
from mstarc.plan.draft import Goto
from mstarc.plan.lanes import Lane, lanes_of, stream_of
from mstarc.plan.scope import Scope
from mstarc.plan.signatures import where_there
from mstarc.plan.turns import dtype_of, is_static
from mstarc.plan.words import emit_text, send_text, spec_expr
from mstarc.source import Span

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


# What a device step can compute of values.
_RESHAPED = {Local, Const, Slice, Shape, LoopIndex, Unary, Binary, Option, LetRef, TableItem}


def ends_of_chunks(program: Program) -> dict[str, Expr]:
    """The condition on its items that ends a chunk of a stream, by the stream.

    A stream has one, whichever read is cut by it (typecheck, MS0418).
    """
    found = {s.name: s.policy.stop for s in program.streams if s.policy.stop is not None}
    for statement in all_statements(program):
        policy = statement.policy if isinstance(statement, Each) else None
        if isinstance(statement, Each) and policy is not None and policy.stop is not None:
            found |= dict.fromkeys(statement.streams, policy.stop)
    return found


def field_of(expr: Expr) -> Expr:
    """The variable of a field of an item."""
    match expr:
        case Field(Local(name), field):
            return Local(f"{name}.{field}")
        case _:
            return expr


def _dims_of(expr: Expr, types: Mapping[str, Type]) -> int:
    """The number of dims of a value."""
    match expr:
        case Local(name):
            type_ = where_there(types[name])
            return len(type_.dims) if isinstance(type_, TensorType) else 0
        case Slice(value, axes):
            return _dims_of(value, types) - sum(not isinstance(axis, tuple) for axis in axes)
        case Shape("concat", arguments):
            return max(1, *(_dims_of(argument, types) for argument in arguments))
        case Shape(_, arguments):
            return 1 + _dims_of(arguments[0], types)
        case _:
            return 0


class EffectFlattener:
    """The part of a `Flattener` that knows effects and static conditions."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener
        self._stops = ends_of_chunks(flattener.program)

    def send(self, send: Send, scope: Scope, *, masked: bool) -> None:
        """Send one item a row, or as many as one leading dim more has."""
        holds = self.flattener.holds(send.condition, scope)
        if holds is not None:
            if not holds:
                return
            send = replace(send, condition=None)
        stream = self.flattener.streams[send.stream]
        lanes = lanes_of(stream)
        values = [
            self._settled(value, scope, send.span, f"{send.stream}_item", masked=masked)
            for value in send.values
        ]
        if len(values) == 1 and len(lanes) > 1 and isinstance(values[0], Local):
            whole = values[0].name
            values = [Local(f"{whole}.{lane.field}") for lane in lanes]
        several = [
            value
            for lane, value in zip(lanes, values, strict=True)
            if _dims_of(value, self.flattener.types) > len(lane.type.dims)
        ]
        size = self._size(several[0]) if several else 1
        condition = send.condition
        always = condition is None or (isinstance(condition, Const) and condition.value)
        if size is None and condition is not None and not always and not masked:
            self._send_if(send, condition, scope)
            return
        assert size is not None or not masked, "a loop's pass sends it"
        ends = self._ends(stream, lanes, values)
        program = self.flattener.program
        assert program.placement is not None
        drafting = self.flattener.drafting
        drafting.device(drafting.rank, scope.place, self.flattener.line(send.span))
        when = self._mask(condition, scope, send.span, f"send_{send.stream}", masked=masked)
        for index, (lane, value) in enumerate(zip(lanes, values, strict=True)):
            drafting.add(
                SendItem(
                    stream=lane.name,
                    value=value,
                    items=size or burst(program, stream, program.placement.max_tokens),
                    ends=ends,
                    masked=masked,
                    when=when,
                    text=send_text(send) if index == 0 else "",
                    alike=several[0] if several and isinstance(value, Const) else None,
                )
            )

    def _ends(self, stream: Stream, lanes: tuple[Lane, ...], values: list[Expr]) -> Expr | None:
        """Which of the items that are sent end a chunk of the read that is cut by them."""
        stop = self._stops.get(stream.name)
        if stop is None:
            return None
        fields = {
            "item" if lane.field is None else f"item.{lane.field}": value
            for lane, value in zip(lanes, values, strict=True)
        }
        ends = fold(substitute(map_expr(stop, field_of), fields))
        return None if isinstance(ends, Const) and not ends.value else ends

    def _send_if(self, send: Send, condition: Expr, scope: Scope) -> None:
        """A choice in front of a send whose items no mask can hide."""
        drafting, place = self.flattener.drafting, scope.place
        name = f"{place.machine}.{place.walk or place.state}.send_{send.stream}"
        self.branch(scope, condition, name, send.span)
        draft = drafting.current
        assert draft is not None
        join = drafting.label()
        draft.yes, draft.no = drafting.label(), join
        drafting.current = None
        drafting.put_label(draft.yes)
        self.send(replace(send, condition=None), scope, masked=False)
        drafting.jump(join)
        drafting.put_label(join)

    def emit(self, emit: Emit, scope: Scope, *, masked: bool) -> None:
        """Hand a value to the client, from a host step where it is one's."""
        holds = self.flattener.holds(emit.condition, scope)
        if holds is not None:
            if not holds:
                return
            emit = replace(emit, condition=None)
        drafting = self.flattener.drafting
        value = self._settled(emit.value, scope, emit.span, emit.output, masked=masked)
        draft = drafting.current
        on_host = draft is not None and draft.kind == "host" and isinstance(value, Local)
        if masked or emit.condition is not None or not on_host:
            drafting.device(drafting.rank, scope.place, self.flattener.line(emit.span))
        drafting.add(
            EmitValue(
                output=emit.output,
                value=value,
                masked=masked,
                when=self._mask(
                    emit.condition, scope, emit.span, f"emit_{emit.output}", masked=masked
                ),
                text=emit_text(emit),
            )
        )

    def mark(self, mark: MarkStream, scope: Scope) -> None:
        """A step of the rank that sends: what was sent so far lies before the mark."""
        flattener, drafting = self.flattener, self.flattener.drafting
        sending = [
            draft.rank
            for draft in drafting.drafts
            for action in flattener.loops.flat(draft.actions)
            if isinstance(action, SendItem) and stream_of(action.stream) == mark.stream
        ]
        rank = drafting.rank
        if sending and rank not in sending:
            rank = sending[-1]
        draft = drafting.start("mark", rank, scope.place, flattener.line(mark.span))
        draft.mark = mark.stream, mark.mark
        draft.text = f"mark {mark.stream}.{mark.mark}"
        behind = drafting.label()
        drafting.close(Goto(behind))
        drafting.put_label(behind)

    def argument(self, argument: Expr, scope: Scope, call: Call, name: str, type_: Type) -> Expr:
        """An argument of a call: what admission can compute becomes an option of the request."""
        value = self.flattener.expr(argument, scope)
        if self._may_be_none(value) and isinstance(type_, OptionalType):
            raise self._impossible("a value that may be none", argument, call.span)
        if isinstance(value, Const | Option | LetRef | Input | Local):
            return value
        host = self.flattener.signatures.is_host(call.node)
        if host and isinstance(value, PartAttribute | LoopIndex):
            return value
        parts = set(map(type, subexpressions(value)))
        turns = self.flattener.turns
        numbers = parts <= {Const, LoopIndex, Unary, Binary, TableItem}
        if numbers and LoopIndex in parts and not host:
            return turns.looked_up(value, dtype_of(type_), call.span)
        if is_static(value) and Input not in parts:
            what = f"{scope.place.walk or scope.place.state}.{call.op}_{name}"
            dtype = None if host else dtype_of(type_)
            return self._derive(argument, scope, call.span, what, dtype)
        if parts <= _RESHAPED:
            make = self.flattener.made if host else self.flattener.settled
            return make(turns.looked_up(value, "i64", call.span), scope, call.span, name)
        raise self._impossible("no value of a device", argument, call.span)

    def _impossible(self, what: str, expr: Expr, span: Span) -> InternalError:
        return InternalError(f"{what}: `{spec_expr(expr)}`", stage="plan", span=span)

    def _settled(self, value: Expr, scope: Scope, span: Span, name: str, *, masked: bool) -> Expr:
        """A value that goes out; behind a loop's test it is made in the step that is open."""
        expr = self.flattener.expr(value, scope)
        return expr if masked else self.flattener.settled(expr, scope, span, name)

    def _may_be_none(self, value: Expr) -> bool:
        """Whether nothing may have been set: a variable of which some way leaves none."""
        return (
            isinstance(value, Local)
            and value.name not in self.flattener.optional
            and isinstance(self.flattener.types.get(value.name), OptionalType)
        )

    def _size(self, value: Expr) -> int | None:
        """How many items a value holds; None where it differs from request to request."""
        type_ = where_there(self.flattener.types[value.name]) if isinstance(value, Local) else None
        first = type_.dims[0] if isinstance(type_, TensorType) else None
        return first.value if isinstance(first, DimConst) else None

    def _mask(
        self, condition: Expr | None, scope: Scope, span: Span, what: str, *, masked: bool
    ) -> Expr | None:
        if condition is None or (isinstance(condition, Const) and condition.value):
            return None
        when = self._derive(condition, scope, span, f"{scope.place.state}.{what}", "bool")
        assert not (masked and isinstance(when, TableItem)), "a loop's pass does that"
        return when

    def _derive(
        self, condition: Expr, scope: Scope, span: Span, name: str, dtype: DType | None
    ) -> Expr:
        expr = self.flattener.expr(condition, scope)
        machine = self.flattener.machine.name
        full = name if name.startswith(f"{machine}.") else f"{machine}.{name}"
        return self.flattener.turns.derive(expr, condition, full, dtype, span)

    def branch(self, scope: Scope, condition: Expr, name: str, span: Span) -> None:
        """A step that chooses by what admission has computed."""
        test = self._derive(condition, scope, span, name, None)
        rank = self.flattener.drafting.rank
        draft = self.flattener.drafting.start(
            "branch", rank, scope.place, self.flattener.line(span)
        )
        draft.test = test
        draft.text = f"when {spec_expr(condition)}"

"""Cut sends and emits, and what depends on conditions that are known at admission.

Before:  emit picture <- image if wants picture
After:   emit picture where option "draw.paint.emit_picture", which admission computes
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mstarc.analysis.bounds import burst
from mstarc.ir.exprs import (
    Binary,
    Const,
    Expr,
    Input,
    LetRef,
    Local,
    LoopIndex,
    Option,
    PartAttribute,
    Shape,
    Slice,
    Unary,
)
from mstarc.ir.graph import Call, Emit, Send, Stream
from mstarc.ir.types import DimConst, TensorType, Type
from mstarc.ir.walking import locals_of, subexpressions
from mstarc.plan.actions import EmitValue, SendItem, substitute
from mstarc.plan.refuse import not_built
from mstarc.plan.scope import Scope
from mstarc.plan.words import emit_text, send_text, spec_expr
from mstarc.source import Span

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


def _dims_of(expr: Expr, types: Mapping[str, Type]) -> int:
    """The number of dims of a value."""
    match expr:
        case Local(name):
            type_ = types[name]
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

    def send(self, send: Send, scope: Scope, *, masked: bool) -> None:
        """Send one item a row, or as many as one leading dim more has."""
        stream = self.flattener.streams[send.stream]
        if len(send.values) != 1 or not isinstance(stream.item, TensorType):
            raise not_built("a stream of several tensors an item", send.span)
        value = self.flattener.expr(send.values[0], scope)
        ends = None
        if stream.policy.stop is not None:
            ends = substitute(stream.policy.stop, {"item": value})
        drafting = self.flattener.drafting
        drafting.device(drafting.rank, scope.place, self.flattener.line(send.span))
        drafting.add(
            SendItem(
                stream=send.stream,
                value=value,
                items=self._items(value, stream, send, masked=masked),
                ends=ends,
                masked=masked,
                when=self._mask(send.condition, scope, send.span, f"send_{send.stream}"),
                text=send_text(send),
            )
        )

    def emit(self, emit: Emit, scope: Scope, *, masked: bool) -> None:
        """Hand a value to the client, from a host step where it is one's."""
        drafting = self.flattener.drafting
        value = self.flattener.expr(emit.value, scope)
        draft = drafting.current
        on_host = draft is not None and draft.kind == "host" and isinstance(value, Local)
        if masked or emit.condition is not None or not on_host:
            self._check_tensor(value, emit)
            drafting.device(drafting.rank, scope.place, self.flattener.line(emit.span))
        drafting.add(
            EmitValue(
                output=emit.output,
                value=value,
                masked=masked,
                when=self._mask(emit.condition, scope, emit.span, f"emit_{emit.output}"),
                text=emit_text(emit),
            )
        )

    def argument(self, argument: Expr, scope: Scope, call: Call, name: str) -> Expr:
        """An argument of a call: what admission can compute becomes an option of the request."""
        value = self.flattener.expr(argument, scope)
        if isinstance(value, Const | Option | LetRef | Input | Local):
            return value
        parts = set(map(type, subexpressions(value)))
        if not parts & {Local, LoopIndex, PartAttribute, Input}:
            what = f"{scope.place.walk or scope.place.state}.{call.op}_{name}"
            return Option(self._derive(argument, scope, call.span, what))
        host = self.flattener.signatures.is_host(call.node)
        known = parts <= {Local, Const, Slice, Shape, LoopIndex, Unary, Binary} and not host
        indices = {part.name for part in subexpressions(value) if isinstance(part, LoopIndex)}
        if known and indices <= set(self.flattener.loops.indices):
            return value
        raise not_built(
            "an argument that changes from pass to pass"
            if indices
            else "an argument that is no value as it stands",
            call.span,
            f"`{name}` of `{call.node}.{call.op}` is `{spec_expr(argument)}`",
        )

    def _items(self, value: Expr, stream: Stream, send: Send, *, masked: bool) -> int:
        """How many items a row sends at most."""
        types = self.flattener.types
        assert isinstance(stream.item, TensorType)
        if _dims_of(value, types) <= len(stream.item.dims):
            return 1
        type_ = types[value.name] if isinstance(value, Local) else None
        first = type_.dims[0] if isinstance(type_, TensorType) else None
        if isinstance(first, DimConst):
            return first.value
        if masked or send.condition is not None or stream.policy.stop is not None:
            what = "a `send` of as many items as a request has, under a condition,"
            raise not_built(what, send.span)
        program = self.flattener.program
        assert program.placement is not None
        return burst(program, stream, program.placement.max_tokens)

    def _check_tensor(self, value: Expr, emit: Emit) -> None:
        """Refuse what no device step can hand over."""
        for name in locals_of(value):
            if not isinstance(self.flattener.types[name], TensorType):
                raise not_built(
                    f"an `emit` of `{spec_expr(emit.value)}` away from the host op that makes it",
                    emit.span,
                    "other steps come between",
                    "run the walk that emits it directly after the host op",
                )

    def _mask(self, condition: Expr | None, scope: Scope, span: Span, what: str) -> str | None:
        if condition is None or (isinstance(condition, Const) and condition.value):
            return None
        return self._derive(condition, scope, span, f"{scope.place.state}.{what}")

    def _derive(self, condition: Expr, scope: Scope, span: Span, name: str) -> str:
        expr = self.flattener.expr(condition, scope)
        for part in subexpressions(expr):
            if isinstance(part, Local | LoopIndex | PartAttribute):
                raise not_built(
                    "a condition that changes from pass to pass",
                    span,
                    f"`{spec_expr(condition)}` is not known when the request is admitted",
                )
        full = (
            name
            if name.startswith(self.flattener.machine.name)
            else f"{self.flattener.machine.name}.{name}"
        )
        while self.flattener.derived.get(full, expr) != expr:
            full += "_"
        self.flattener.derived[full] = expr
        return full

    def branch(self, scope: Scope, condition: Expr, name: str, span: Span) -> None:
        """A step that chooses by what admission has computed."""
        derived = self._derive(condition, scope, span, name)
        rank = self.flattener.drafting.rank
        draft = self.flattener.drafting.start(
            "branch", rank, scope.place, self.flattener.line(span)
        )
        draft.test = derived
        draft.text = f"when {spec_expr(condition)}"

"""Calls of ops, with their arguments as variables.

Before:  %z = head.step(%a) on main
After:   CallOp(head.step, arguments=(Local("decode.a"),), results=("decode.z",))

Not here: whether a call shares a step with the one before it (`draft`), forks (`contexts`).
"""

from typing import TYPE_CHECKING

from mstarc.ir.exprs import Expr, Local, Shape, Slice
from mstarc.ir.graph import Call, Value
from mstarc.plan.actions import CallOp, Move
from mstarc.plan.scope import Scope
from mstarc.plan.signatures import has_free_dim
from mstarc.plan.words import call_text, spec_expr

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


class CallFlattener:
    """The part of a `Flattener` that knows calls."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener

    def call(self, call: Call, scope: Scope) -> None:
        """Put a call into a device step, or a host step of its own."""
        flattener = self.flattener
        contexts = flattener.signatures.nodes[call.node].contexts
        first = contexts[0].name if contexts else call.context
        parameters = flattener.signatures.ops[call.node, call.op].parameters
        arguments = tuple(
            flattener.effects.argument(argument, scope, call, parameter.name, parameter.type)
            for parameter, argument in zip(parameters, call.arguments, strict=True)
        )
        array = call.index is None and any(
            context.name == call.context and context.count is not None for context in contexts
        )
        if not array:
            arguments = self._packable(call, arguments, scope)
        results = tuple(None if r is None else flattener.define(r, scope) for r in call.results)
        op = CallOp(
            node=call.node,
            op=call.op,
            arguments=arguments,
            results=results,
            context=None if call.context == first and not array else call.context,
            index=flattener.contexts.index(call.index, scope, call.context or "", call.span),
            over=(call.over or (False,) * len(arguments)) if array else None,
            there=tuple(
                (argument.name, flattener.optional[argument.name])
                for argument in arguments
                if isinstance(argument, Local) and argument.name in flattener.optional
            ),
            advance=flattener.contexts.advance(call, arguments, scope),
            site=call.site,
            line=flattener.line(call.span),
            text=call_text(call),
        )
        flattener.drafting.call(call, op, scope.place)

    def _packable(self, call: Call, arguments: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        """Arguments that are rows of a KV cache are values: reshaped ones are made in front.

        A step lays all requests' rows one behind the other, where nothing can be joined any more.
        """
        flattener = self.flattener
        op = flattener.signatures.ops[call.node, call.op]
        if flattener.signatures.nodes[call.node].engine != "kv_cache":
            return arguments
        reshaped = {
            parameter.name: Value(name=f"{call.site}.{parameter.name}", type=parameter.type)
            for parameter, argument in zip(op.parameters, arguments, strict=True)
            if has_free_dim(parameter.type) and isinstance(argument, Shape | Slice)
        }
        if not reshaped:
            return arguments
        drafting, line = flattener.drafting, flattener.line(call.span)
        draft = drafting.device(call.home, scope.place, line)
        if any(flattener.signatures.nodes[made.node].engine == "kv_cache" for made in draft.calls):
            drafting.start("device", call.home, scope.place, line)
        names = {name: flattener.define(value, scope) for name, value in reshaped.items()}
        flattener.hints.update({variable: name for name, variable in names.items()})
        given = dict(zip((p.name for p in op.parameters), arguments, strict=True))
        pairs = tuple((variable, given[name]) for name, variable in names.items())
        text = ", ".join(f"{name} = {spec_expr(given[name])}" for name in names)
        drafting.add(Move(pairs=pairs, text=text))
        drafting.start("device", call.home, scope.place, line)
        return tuple(
            Local(names[p.name]) if p.name in names else argument
            for p, argument in zip(op.parameters, arguments, strict=True)
        )

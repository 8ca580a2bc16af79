"""Op calls as the IR has them, in walks and in machines alike."""

from collections.abc import Sequence

from mstarc.ir import graph as ir
from mstarc.lowering.exprs import Exprs
from mstarc.syntax import ast
from mstarc.typecheck import Typed


class Sites:
    """Numbers the calls, loops, runs and eaches of a walk or a state: `walk/0`, `walk/loop0`."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._counts: dict[str, int] = {}

    def new(self, kind: str = "") -> str:
        """The next site of a kind; calls have no kind."""
        count = self._counts.get(kind, 0)
        self._counts[kind] = count + 1
        return f"{self._owner}/{kind}{count}"


def lower_call(
    call: ast.OpCall,
    results: Sequence[ir.Value | None],
    *,
    exprs: Exprs,
    site: str,
    typed: Typed,
    span: ast.Node,
) -> ir.Call:
    """The call of an op. `results` may be shorter than the op's: the rest is not taken."""
    op = typed.nodes[call.target.node.text].ops[call.target.op.text]
    taken = (*results, *[None] * (len(op.results) - len(results)))
    context, index = typed.contexts.get(call), None
    if call.context is not None and call.context.index is not None:
        context, index = call.context.name.text, exprs.lower(call.context.index)
    return ir.Call(
        node=op.node,
        op=op.name,
        arguments=tuple(exprs.lower(argument) for argument in typed.arguments[call]),
        results=taken,
        context=context,
        index=index,
        over=typed.over.get(call, ()),
        site=site,
        span=span.span,
    )

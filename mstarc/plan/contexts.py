"""Forks and releases of contexts, and the contexts that a call works on.

Before:  fork llm.no_text = llm.main   %v = llm.step(%x) on no_text
After:   one step: in front of it `no_text` shares main's rows; then the call, on `no_text`

Page tables are the host's, so a step changes them before it is launched. Hence a fork or a release
stands in front of its node's calls in a step, and begins a new one behind a call.
"""

from typing import TYPE_CHECKING

from mstarc.ir.exprs import Const, Expr, Local
from mstarc.ir.folding import fold
from mstarc.ir.graph import Call, Fork, Release
from mstarc.ir.walking import all_statements
from mstarc.plan.actions import ClearContext, ForkContext, substitute
from mstarc.plan.draft import Draft
from mstarc.plan.scope import Scope
from mstarc.plan.words import at
from mstarc.source import Span

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


class ContextFlattener:
    """The part of a `Flattener` that knows contexts."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener
        calls = (s for s in all_statements(flattener.program) if isinstance(s, Call))
        self.called = {call.node for call in calls}

    def fork(self, fork: Fork, scope: Scope) -> None:
        """Let a context hold what another one holds; under a condition behind a choice."""
        condition, holds = fork.condition, self.flattener.holds(fork.condition, scope)
        if holds is False:
            return
        if fork.node not in self.called:
            return  # nobody calls the node: its contexts are empty
        if condition is None or holds:
            self._fork(fork, scope)
            return
        drafting, place = self.flattener.drafting, scope.place
        name = f"{place.machine}.{place.walk or place.state}.fork_{fork.target}"
        self.flattener.effects.branch(scope, condition, name, fork.span)
        draft = drafting.current
        assert draft is not None
        join = drafting.label()
        draft.yes, draft.no = drafting.label(), join
        drafting.current = None
        drafting.put_label(draft.yes)
        self._fork(fork, scope)
        drafting.jump(join)
        drafting.put_label(join)

    def release(self, release: Release, scope: Scope) -> None:
        """Empty a context."""
        if release.node not in self.called:
            return
        self._step(release.node, release.context, scope, release.span)
        text = f"release {release.node}.{at(release.context, release.index)}"
        index = self.index(release.index, scope, release.context, release.span)
        self.flattener.drafting.add(
            ClearContext(node=release.node, context=release.context, index=index, text=text)
        )

    def _fork(self, fork: Fork, scope: Scope) -> None:
        self._step(fork.node, fork.source, scope, fork.span)
        target, source = at(fork.target, fork.target_index), at(fork.source, fork.source_index)
        self.flattener.drafting.add(
            ForkContext(
                node=fork.node,
                source=fork.source,
                target=fork.target,
                source_index=self.index(fork.source_index, scope, fork.source, fork.span),
                target_index=self.index(fork.target_index, scope, fork.target, fork.span),
                text=f"fork {fork.node}.{target} = {fork.node}.{source}",
            )
        )

    def advance(self, call: Call, arguments: tuple[Expr, ...], scope: Scope) -> Expr | None:
        """By how much a call moves positions: a number, a variable, or what admission computes."""
        op = self.flattener.signatures.ops[call.node, call.op]
        if op.advance is None:
            return None
        names = [parameter.name for parameter in op.parameters]
        moved = fold(substitute(op.advance, dict(zip(names, arguments, strict=True))))
        if isinstance(moved, Const | Local):
            return moved
        place = scope.place
        name = f"{place.machine}.{place.walk or place.state}.{call.op}_advance"
        return self.flattener.turns.derive(moved, moved, name, None, call.span)

    def index(self, index: Expr | None, scope: Scope, context: str, span: Span) -> Expr | None:
        """Which context of an array: a number, or what admission computes."""
        if index is None or isinstance(index, Const):
            return index
        place, flattener = scope.place, self.flattener
        name = f"{place.machine}.{place.walk or place.state}.{context}"
        return flattener.turns.derive(flattener.expr(index, scope), index, name, None, span)

    def _step(self, node: str, context: str, scope: Scope, span: Span) -> Draft:
        """A device step of the rank that has the context, in which the node has not been called."""
        drafting, place = self.flattener.drafting, scope.place
        placement = self.flattener.program.placement
        assert placement is not None
        walk = place.walk or f"{place.machine}.{place.state}"
        rank = placement.assignment(node, walk, context).ranks[0]
        line = self.flattener.line(span)
        draft = drafting.device(rank, scope.place, line)
        if any(call.node == node for call in draft.calls):
            draft = drafting.start("device", rank, scope.place, line)
        return draft
